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

/// The name and the value of each environment variable of a process.
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment process_environment();

/// Does the same as Options::from_env, for a given environment.
Options options_from(const Environment& environment);

/// A variable that sets a field of Options.
struct OptionVariable {
  std::string_view field;    ///< the name of the field of Options: "key_timeout"
  std::string_view name;     ///< empty: the program alone sets it
  std::string_view accepts;  ///< for messages: "0, 1, true or false"
  /// Returns false if the value is not usable.
  bool (*set)(Options&, std::string_view value);
  /// Returns the field's value in the form that `set` takes.
  std::string (*show)(const Options&);
};
std::span<const OptionVariable> option_variables();

/// Throws `invalid_argument` if the name begins like this library's environment variables, but is
/// none of them. The error suggests the variable that may have been meant.
void check_name_of_variable(const std::string& name);

/// Throws `invalid_argument` if a field has a value that its variable would not take.
void check(const Options& options);

/// The origin of an option: the name of its variable, "program" or "default".
std::string origin_of(const OptionVariable& variable, const Options& used,
                      const Environment& environment);

/// Returns, in words, the options that decide how fast a store is, and then the choices of its
/// session. A session's choice without an origin gets the origin of the slice size.
std::vector<Choice> choices_of(const Options& used, const std::vector<Choice>& of_session,
                               const Environment& environment);

/// The way in which the job was started. The launcher sets TUTTI_MODE to it. Throws
/// `invalid_argument` if the value is not a mode.
enum class LaunchMode : std::uint8_t { none, ps, mpi };
LaunchMode launch_mode(const Environment& environment);

}  // namespace tutti
