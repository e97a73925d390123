#include "command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/first_to_say.h"
#include "base/names.h"
#include "base/printable.h"

namespace command_line {
namespace {

namespace base = tutti::base;

std::vector<std::string_view> views_of(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
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
    const std::string near = is_option ? base::suggestion(name, views_of(known)) : "";
    text += std::string(text.empty() ? "" : "; ") +
            (is_option ? "unknown option '" : "unexpected word '") + name + "'" + near;
  }
  return text + " (--help lists all)";
}

/// The option that the user has given more often than allowed.
const CLI::Option* repeated(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const auto most = static_cast<std::size_t>(option->get_items_expected_max());
    if (option->results().size() > most) return option;
  }
  return nullptr;
}

std::string miscounted(const CLI::App& app, const CLI::ArgumentMismatch& error) {
  if (const CLI::Option* const option = repeated(app)) {
    std::string values;
    for (const std::string& value : option->results()) {
      values += (values.empty() ? "" : " and ") + base::quoted(value);
    }
    return fmt::format("{} is given more than once, with {}; give it once", option->get_name(),
                       values);
  }
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(0, colon) + " needs a value behind it";
}

std::string unconverted(const CLI::App& app, const CLI::ConversionError& error) {
  constexpr std::string_view before = "Could not convert: ";
  std::string text = error.what();
  const std::size_t equals = text.find(" = ");
  if (!text.starts_with(before) || equals == std::string::npos) return text;
  const std::string name = text.substr(before.size(), equals - before.size());
  const CLI::Option* const option = app.get_option_no_throw(name);
  const std::string type = option != nullptr ? option->get_type_name() : "";
  return fmt::format("{}: {} is not a {}", name, base::quoted(text.substr(equals + 3)),
                     type.starts_with("FLOAT")  ? "number"
                     : type.starts_with("INT")  ? "whole number"
                     : type.starts_with("UINT") ? "whole number from 0"
                                                : "value for it");
}

}  // namespace

void parse(CLI::App& app, int argc, const char* const* argv) {
  if (app.get_version_ptr() == nullptr) {
    app.set_version_flag("--version", "tutti " TUTTI_VERSION, "Print the version and exit");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ExtrasError&) {
    throw CLI::ParseError(base::printable(unknown_words(app)), CLI::ExitCodes::ExtrasError);
  } catch (const CLI::ArgumentMismatch& error) {
    throw CLI::ParseError(base::printable(miscounted(app, error)), error.get_exit_code());
  } catch (const CLI::ConversionError& error) {
    throw CLI::ParseError(base::printable(unconverted(app, error)), error.get_exit_code());
  } catch (const CLI::ParseError& error) {
    throw CLI::ParseError(text_of(error), error.get_exit_code());
  }
}

std::optional<int> parse_or_status(CLI::App& app, int argc, const char* const* argv, bool speaks) {
  try {
    parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostream silent(nullptr);
    const bool is_news =
        speaks && base::is_first_to_say(fmt::format("{} {}", argv[0], error.what()));
    const int status = is_news ? app.exit(error) : app.exit(error, silent, silent);
    return status == 0 ? 0 : usage_error;
  }
  return std::nullopt;
}

int complain(std::string_view program, const tutti::Error& error, const std::string& text) {
  const int status = exit_status(error);
  const std::string line = fmt::format("{}: {}\n", program, text);
  if (status != usage_error || base::is_first_to_say(line)) fmt::print(stderr, "{}", line);
  return status;
}

std::string text_of(const std::exception& error) {
  return base::printable(error.what());
}

int exit_status(const tutti::Error& error) {
  using enum tutti::ErrorCode;
  const bool of_usage = error.code() == invalid_argument || error.code() == unsupported;
  return of_usage ? usage_error : 1;
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto wrong = [names](const std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return {};
    const std::string meant = base::suggestion(text, views_of(names));
    return fmt::format("{} is not known{} (known: {})", base::quoted(text), meant,
                       fmt::join(names, ", "));
  };
  return {wrong, fmt::format("{{{}}}", fmt::join(names, ",")), "one of"};
}

CLI::Validator between(double least, double most) {
  const auto wrong = [=](const std::string& text) -> std::string {
    double value = 0;
    const bool right = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return right ? ""
                 : fmt::format("{} is not a number from {} to {}", base::quoted(text), least, most);
  };
  return {wrong, fmt::format("in [{} - {}]", least, most), "between"};
}

CLI::Validator size() {
  const CLI::AsSizeValue cli11s(false);
  const auto convert = [cli11s](std::string& text) -> std::string {
    std::string number = text;
    try {
      // CLI11 reads "K" as 0 and wraps "-1" around.
      if (text.find_first_of("0123456789") == 0 && cli11s(number).empty()) {
        text = number;
        return {};
      }
    } catch (const CLI::ValidationError&) {  // the error below names no type of C++
    }
    return fmt::format("{} is not a size, such as 65536, 64K or 2M", base::quoted(text));
  };
  return {convert, "", "size"};
}

}  // namespace command_line
