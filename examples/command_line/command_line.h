#pragma once
#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"

/// What all programs have in common on their command lines.
namespace command_line {

/// The exit status of a program that was asked for what cannot be.
constexpr int usage_error = 2;

/// `app.parse`. Of an option that it does not know it says which was probably meant. Throws
/// CLI::ParseError.
void parse(CLI::App& app, int argc, const char* const* argv);

/// The same for a program's main. Returns nothing when the line is right; else the exit status, 0
/// after --help. Prints the help, or what is wrong, unless another rank `speaks`.
std::optional<int> parse_or_status(CLI::App& app, int argc, const char* const* argv,
                                   bool speaks = true);

/// What a program ends with after this error.
int exit_status(const tutti::Error& error);

/// The known word with the fewest edits from this one; empty when even that is another word.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace command_line
