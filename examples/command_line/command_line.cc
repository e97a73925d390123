#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>

#include "base/printable.h"

namespace command_line {
namespace {

/// The edit distance: insertions, deletions and replacements that turn a into b.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row{i};
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row.push_back(std::min({replaced, above[j] + 1, row[j - 1] + 1}));
    }
    above = std::move(row);
  }
  return above.back();
}

std::string unknown_words(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  std::string text;
  for (const std::string& word : app.remaining()) {
    const bool is_option = word.starts_with('-');
    const std::string name = is_option ? word.substr(0, word.find('=')) : word;
    const std::string near = is_option ? nearest(name, known) : "";
    text += std::string(text.empty() ? "" : "; ") +
            (is_option ? "unknown option '" : "unexpected word '") + name + "'" +
            (near.empty() ? "" : ", did you mean '" + near + "'?");
  }
  return text + " (--help lists all)";
}

}  // namespace

void parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ExtrasError&) {
    throw CLI::ParseError(tutti::base::printable(unknown_words(app)), CLI::ExitCodes::ExtrasError);
  } catch (const CLI::ParseError& error) {
    throw CLI::ParseError(text_of(error), error.get_exit_code());
  }
}

std::optional<int> parse_or_status(CLI::App& app, int argc, const char* const* argv, bool speaks) {
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostream silent(nullptr);
    const int status = speaks ? app.exit(error) : app.exit(error, silent, silent);
    return status == 0 ? 0 : usage_error;
  }
  return std::nullopt;
}

std::string text_of(const std::exception& error) {
  return tutti::base::printable(error.what());
}

int exit_status(const tutti::Error& error) {
  using enum tutti::ErrorCode;
  const bool of_usage = error.code() == invalid_argument || error.code() == unsupported;
  return of_usage ? usage_error : 1;
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t fewest = 1 + std::max<std::size_t>(2, word.size() / 3);
  for (const std::string& candidate : known) {
    const std::size_t count = edits(word, candidate);
    if (count < fewest) {
      fewest = count;
      best = candidate;
    }
  }
  return best;
}

}  // namespace command_line
