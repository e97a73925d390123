#pragma once
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"

/// Shared code for the command lines of all programs.
namespace command_line {

/// The exit status for a command line or input that cannot be used.
constexpr int usage_error = 2;

/// Does the same as `app.parse`, with an additional option --version, and in plain words. For an
/// unknown option it suggests the one that was probably meant. Throws CLI::ParseError, whose text
/// is one line.
void parse(CLI::App& app, int argc, const char* const* argv);

/// Does the same for a program's main. Returns nothing if the line is right, and otherwise the exit
/// status, which is 0 after --help and --version. Prints the help, or if `base::is_first_to_say`
/// the error. If `speaks` is false, another rank prints it.
std::optional<int> parse_or_status(CLI::App& app, int argc, const char* const* argv,
                                   bool speaks = true);

/// Prints "program: text" to stderr. If the user has made the error, prints it only if
/// `base::is_first_to_say`. Returns the program's exit status.
int complain(std::string_view program, const tutti::Error& error, const std::string& text);

/// The error's text as one line, whatever options and paths it contains.
std::string text_of(const std::exception& error);

/// The exit status of a program after this error.
int exit_status(const tutti::Error& error);

/// Checks that an option's value is one of these names. The error suggests the one that was
/// probably meant.
CLI::Validator one_of(const std::vector<std::string>& names);
/// Checks that the value is a number within these limits. NaN is refused, although CLI::Range
/// accepts it.
CLI::Validator between(double least, double most);
/// Turns sizes such as 64K into numbers, where K means 1024 bytes. For `transform`.
CLI::Validator size();

}  // namespace command_line
