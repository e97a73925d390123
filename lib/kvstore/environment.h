#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/info.h"
#include "tutti/options.h"

namespace tutti {

/// Name and value of each environment variable of a process.
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment process_environment();

/// Options::from_env on a given environment.
Options options_from(const Environment& environment);

/// One variable that sets a field of Options.
struct OptionVariable {
  std::string_view name;
  std::string_view accepts;  ///< for messages: "0, 1, true or false"
  /// False: the value is not usable.
  bool (*set)(Options&, std::string_view value);
  /// The field's value as the variable would say it.
  std::string (*show)(const Options&);
};
std::span<const OptionVariable> option_variables();

/// Throws `invalid_argument` when a field has a value that its variable would not take.
void check(const Options& options);

/// Who says what an option is: the name of its variable, "program" or "default".
std::string origin_of(const OptionVariable& variable, const Options& used,
                      const Environment& environment);

/// The options that decide how fast a store is, in words, and what the store's session says beyond
/// them; an empty origin there is that of the slice size.
std::vector<Choice> choices_of(const Options& used, const std::vector<Choice>& of_session,
                               const Environment& environment);

/// How the job was started, from TUTTI_MODE, which the launcher sets. Throws `invalid_argument`
/// for a value that is no mode.
enum class LaunchMode : std::uint8_t { none, ps, mpi };
LaunchMode launch_mode(const Environment& environment);

}  // namespace tutti
