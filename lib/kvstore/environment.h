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

/// Does the same as Options::from_env, for a given environment.
Options options_from(const Environment& environment);

/// A variable that sets a field of Options.
struct OptionVariable {
  std::string_view field;    ///< of Options: "key_timeout"
  std::string_view name;     ///< empty: the program alone sets it
  std::string_view accepts;  ///< for messages: "0, 1, true or false"
  /// False: the value is not usable.
  bool (*set)(Options&, std::string_view value);
  /// The field's value in the form that `set` takes.
  std::string (*show)(const Options&);
};
std::span<const OptionVariable> option_variables();

/// Throws `invalid_argument` for the name of an environment variable that begins as this library's
/// do and is not known, with the known one that may have been meant.
void check_name_of_variable(const std::string& name);

/// Throws `invalid_argument` if a field has a value that its variable would not take.
void check(const Options& options);

/// The origin of an option: the name of its variable, "program" or "default".
std::string origin_of(const OptionVariable& variable, const Options& used,
                      const Environment& environment);

/// The options that decide how fast a store is, in words, then the choices of its session. A choice
/// of the session without origin gets the origin of the slice size.
std::vector<Choice> choices_of(const Options& used, const std::vector<Choice>& of_session,
                               const Environment& environment);

/// How the job was started, from TUTTI_MODE, which the launcher sets. Throws `invalid_argument`
/// for a value that is no mode.
enum class LaunchMode : std::uint8_t { none, ps, mpi };
LaunchMode launch_mode(const Environment& environment);

}  // namespace tutti
