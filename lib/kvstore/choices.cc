#include <algorithm>

#include "kvstore/environment.h"

namespace tutti {
namespace {

struct Wording {
  std::string_view variable;
  const char* name;
  const char* zero;  ///< the meaning of 0
};

constexpr Wording wordings[] = {
    {"TUTTI_REPLAY", "replay", "off"},
    {"TUTTI_FUSION_BYTES", "fusion threshold", "no fusion"},
    {"TUTTI_PART_BYTES", "part size", "never cut"},
    {"TUTTI_REPRODUCIBLE", "reproducible sums", "off"},
};

std::string in_words(const Wording& wording, const std::string& value) {
  if (value == "0") return wording.zero;
  return value == "1" ? "on" : value;
}

}  // namespace

std::string origin_of(const OptionVariable& variable, const Options& used,
                      const Environment& environment) {
  const std::string value = variable.show(used);
  const auto set = std::find_if(environment.begin(), environment.end(),
                                [&](const auto& entry) { return entry.first == variable.name; });
  // The program may have set another value than the environment variable.
  Options said;
  if (set != environment.end() && variable.set(said, set->second) && variable.show(said) == value) {
    return std::string(variable.name);
  }
  return variable.show(Options()) == value ? "default" : "program";
}

std::vector<Choice> choices_of(const Options& used, const std::vector<Choice>& of_session,
                               const Environment& environment) {
  std::vector<Choice> choices;
  std::string slice_origin;
  for (const OptionVariable& variable : option_variables()) {
    const std::string origin = origin_of(variable, used, environment);
    if (variable.name == "TUTTI_SLICE_BYTES") slice_origin = origin;
    for (const Wording& wording : wordings) {
      const std::string value = variable.show(used);
      if (wording.variable != variable.name || value == "auto") continue;
      choices.push_back({wording.name, in_words(wording, value), origin});
    }
  }
  for (const Choice& choice : of_session) {
    choices.push_back(choice);
    if (choice.origin.empty()) choices.back().origin = slice_origin;
  }
  return choices;
}

}  // namespace tutti
