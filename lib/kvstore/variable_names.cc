#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "kvstore/environment.h"
#include "tutti/error.h"

namespace tutti {
namespace {

/// Variables that set no option:
/// - the launcher's mode;
/// - the secret of a parameter-server job, which nobody should print;
/// - the socket of its scheduler;
/// - a variable of the Python package;
/// - the socket at which the launcher tells of ended processes;
/// - the place of a process in a parameter-server job, which ps::Job reads.
constexpr std::string_view other_names[] = {"TUTTI_MODE",
                                            "TUTTI_JOB_KEY",
                                            "TUTTI_JOB_KEY_FILE",
                                            "TUTTI_LISTEN_FD",
                                            "TUTTI_AUTOLOAD",
                                            "TUTTI_END_NOTICES",
                                            "DMLC_ROLE",
                                            "DMLC_PS_ROOT_URI",
                                            "DMLC_PS_ROOT_PORT",
                                            "DMLC_NUM_WORKER",
                                            "DMLC_NUM_SERVER",
                                            "DMLC_RANK",
                                            "DMLC_NODE_HOST",
                                            "PS_VERBOSE",
                                            "PS_HEARTBEAT_INTERVAL",
                                            "PS_HEARTBEAT_TIMEOUT",
                                            "PS_RESEND",
                                            "PS_RESEND_TIMEOUT",
                                            "PS_DROP_MSG",
                                            "PS_DELAY_MSG",
                                            "PS_DUPLICATE_MSG"};

/// Variables whose names have a common prefix. Other programs use MXNet's prefixes, too, so the
/// store refuses a name with such a prefix only if it looks misspelt.
struct NameFamily {
  std::string_view prefix;
  bool is_ours;
};
constexpr NameFamily families[] = {{"TUTTI_", true}, {"DMLC_", false}, {"PS_", false}};

std::vector<std::string_view> known_names(const NameFamily& family) {
  std::vector<std::string_view> names;
  for (const std::string_view name : other_names) {
    if (name.starts_with(family.prefix)) names.push_back(name);
  }
  for (const OptionVariable& variable : option_variables()) {
    if (variable.name.starts_with(family.prefix)) names.push_back(variable.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A name that users may write for a variable, without the family's prefix.
struct Spelling {
  std::string text;
  std::string_view name;  ///< the variable's
};

/// Adds the variable's name without its unit, and the name of its option: TIMEOUT and KEY_TIMEOUT
/// for TIMEOUT_SECONDS.
void add_spellings_of(const OptionVariable& variable, std::string_view prefix,
                      std::vector<Spelling>& spellings) {
  if (variable.name.empty()) return;
  std::string field(variable.field);
  std::ranges::transform(field, field.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  spellings.push_back({std::move(field), variable.name});
  for (const std::string_view unit : {"_SECONDS", "_BYTES"}) {
    if (!variable.name.starts_with(prefix) || !variable.name.ends_with(unit)) continue;
    std::string_view text = variable.name;
    text.remove_suffix(unit.size());
    spellings.push_back({std::string(text.substr(prefix.size())), variable.name});
  }
}

/// In a family whose prefix other programs use, too, only the variables' own names count.
std::vector<Spelling> spellings_of(const NameFamily& family,
                                   const std::vector<std::string_view>& known) {
  std::vector<Spelling> spellings;
  spellings.reserve(known.size());
  for (const std::string_view name : known) {
    spellings.push_back({std::string(name.substr(family.prefix.size())), name});
  }
  if (!family.is_ours) return spellings;
  for (const OptionVariable& variable : option_variables()) {
    add_spellings_of(variable, family.prefix, spellings);
  }
  return spellings;
}

/// The variable that was probably meant. Empty if no name is similar.
std::string_view meant_by(std::string_view name, const NameFamily& family,
                          const std::vector<std::string_view>& known) {
  const std::vector<Spelling> spellings = spellings_of(family, known);
  std::vector<std::string_view> texts;
  texts.reserve(spellings.size());
  for (const Spelling& spelling : spellings) texts.push_back(spelling.text);
  // Compares the names without their common prefix. The rests must be similar.
  const std::string_view near = base::nearest(name.substr(family.prefix.size()), texts);
  const auto found = std::ranges::find(spellings, near, &Spelling::text);
  return near.empty() || found == spellings.end() ? std::string_view() : found->name;
}

/// Refuses an unknown name of the family.
void check_in_family(const std::string& name, const NameFamily& family) {
  const std::vector<std::string_view> known = known_names(family);
  if (std::binary_search(known.begin(), known.end(), name)) return;
  const std::string_view near = meant_by(name, family, known);
  if (near.empty() && !family.is_ours) return;
  const std::string meant = near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("environment variable {} is not known{} (known: {})", name, meant,
                          fmt::join(known, ", ")));
}

}  // namespace

void check_name_of_variable(const std::string& name) {
  for (const NameFamily& family : families) {
    if (name.starts_with(family.prefix)) check_in_family(name, family);
  }
}

}  // namespace tutti
