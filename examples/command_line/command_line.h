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

/// As `app.parse`, with an option --version, and in plain words: for an unknown option it suggests
/// the one that was probably meant. Throws CLI::ParseError, whose text is one line.
void parse(CLI::App& app, int argc, const char* const* argv);

/// The same for a program's main. Returns nothing if the line is right, else the exit status, which
/// is 0 after --help and --version. Prints the help or the error, if `is_first_to_say`; `speaks`
/// false: another rank prints it.
std::optional<int> parse_or_status(CLI::App& app, int argc, const char* const* argv,
                                   bool speaks = true);

/// Whether no other rank of an Open MPI job has said this on this machine: what all ranks are told
/// in the same words, such as that an option is unknown, the user reads once. Remembered in the
/// job's own folder, which mpirun removes. True for a process outside of such a job.
bool is_first_to_say(std::string_view text);

/// Prints "program: text" to stderr; where the error is of usage, only if `is_first_to_say`.
/// Returns the program's exit status.
int complain(std::string_view program, const tutti::Error& error, const std::string& text);

/// The error's text as one line, whatever options and paths in it hold.
std::string text_of(const std::exception& error);

/// The exit status of a program after this error.
int exit_status(const tutti::Error& error);

/// An option's value is one of these names. The error suggests the one that was probably meant.
CLI::Validator one_of(const std::vector<std::string>& names);
/// It is a number within these limits. NaN, which CLI::Range lets pass, is not.
CLI::Validator between(double least, double most);
/// Turns sizes such as 64K, of 1024 bytes each, into numbers: for `transform`.
CLI::Validator size();

}  // namespace command_line
