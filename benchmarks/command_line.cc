#include "benchmarks/command_line.h"

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"

namespace tutti::bench {
namespace {

std::string unknown_words(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  std::string text;
  for (const std::string& word : app.remaining()) {
    const bool is_option = word.starts_with('-');
    const std::string name = is_option ? word.substr(0, word.find('=')) : word;
    text += std::string(text.empty() ? "" : "; ") +
            (is_option ? "unknown option '" : "unexpected word '") + name + "'" +
            (is_option ? base::suggestion(name, names) : "");
  }
  return text + " (--help lists all)";
}

}  // namespace

void parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    throw CLI::ParseError(unknown_words(app), CLI::ExitCodes::ExtrasError);
  }
}

}  // namespace tutti::bench
