#include "tutti/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/log.h"
#include "base/names.h"
#include "base/printable.h"
#include "kvstore/environment.h"
#include "tutti/error.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

bool parse_flag(std::string_view text, bool& flag) {
  flag = text == "1" || text == "true";
  return flag || text == "0" || text == "false";
}

bool parse_seconds(std::string_view text, milliseconds& time) {
  // No job waits for a century. This limit keeps sums of times far from overflow.
  constexpr double most = 100.0 * 365 * 24 * 3600;
  double seconds = 0;
  if (!parse(text, seconds) || !(seconds >= 0.001 && seconds <= most)) return false;
  time = milliseconds(std::llround(seconds * 1000));
  return true;
}

bool parse_bytes(std::string_view text, std::size_t& bytes) {
  // No machine has so much memory. With this limit the sum of a whole node's slices fits into 64
  // bits.
  constexpr std::size_t most = std::size_t{8} << 40;
  constexpr std::string_view suffixes = "KMGT";
  const std::size_t power = text.empty() ? std::string_view::npos : suffixes.find(text.back());
  unsigned shift = 0;
  if (power != std::string_view::npos) {
    shift = 10 * static_cast<unsigned>(power + 1);
    text.remove_suffix(1);
  }
  std::uint64_t number = 0;
  if (!parse(text, number)) return false;
  if (number > most >> shift) return false;
  bytes = number << shift;
  return true;
}

constexpr std::string_view automatic = "auto";

// There is one overload for each type of field.
template <bool Options::*Field>
constexpr OptionVariable variable(std::string_view field, std::string_view name) {
  return {field, name, "0, 1, true or false",
          [](Options& o, std::string_view text) { return parse_flag(text, o.*Field); },
          [](const Options& o) { return std::string(o.*Field ? "1" : "0"); }};
}

template <milliseconds Options::*Field>
constexpr OptionVariable variable(std::string_view field, std::string_view name) {
  return {field, name, "seconds as a decimal number from 0.001 to a century, such as 30 or 0.5",
          [](Options& o, std::string_view text) { return parse_seconds(text, o.*Field); },
          [](const Options& o) {
            return fmt::format("{}", static_cast<double>((o.*Field).count()) / 1000);
          }};
}

template <std::size_t Options::*Field>
constexpr OptionVariable variable(std::string_view field, std::string_view name) {
  return {field, name, "a number of bytes up to 8T, such as 65536, 64K or 2M (K is 1024)",
          [](Options& o, std::string_view text) { return parse_bytes(text, o.*Field); },
          [](const Options& o) { return base::bytes_text(o.*Field); }};
}

template <std::optional<std::size_t> Options::*Field>
constexpr OptionVariable variable(std::string_view field, std::string_view name) {
  return {field, name, "auto, or a number of bytes up to 8T, such as 65536, 64K or 2M (K is 1024)",
          [](Options& o, std::string_view text) {
            (o.*Field).reset();
            return text == automatic || parse_bytes(text, (o.*Field).emplace());
          },
          [](const Options& o) {
            return o.*Field ? base::bytes_text(*(o.*Field)) : std::string(automatic);
          }};
}

/// Sets the network interface, if its name is possible. An empty text chooses none.
bool set_interface(Options& options, std::string_view text) {
  options.interface = text;
  return base::printable(text) == text && text.find_first_of(" /") == std::string_view::npos;
}

bool set_log_level(Options& options, std::string_view text) {
  const auto levels = base::log_levels();
  options.log_level = text;
  return std::find(levels.begin(), levels.end(), text) != levels.end();
}

constexpr std::string_view no_bound = "off";

bool set_staleness(Options& options, std::string_view text) {
  constexpr int most = 1'000'000;
  options.staleness.reset();
  if (text == no_bound) return true;
  int& staleness = options.staleness.emplace();
  return parse(text, staleness) && staleness >= 0 && staleness <= most;
}

bool set_gpu(Options& options, std::string_view text) {
  options.gpu.reset();
  return text == automatic || (parse(text, options.gpu.emplace()) && *options.gpu >= 0);
}

/// The text is a list such as "0,2,5", or empty.
bool set_ranks(Options& options, std::string_view text) {
  options.ranks.clear();
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    if (!parse(one, options.ranks.emplace_back()) || options.ranks.back() < 0) return false;
    if (one.size() + 1 == text.size()) return false;
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  std::vector<int> sorted = options.ranks;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

constexpr auto variables = std::to_array<OptionVariable>({
    {"ranks", "", "ranks from 0 on, each once, such as 0,2,5", set_ranks,
     [](const Options& o) { return fmt::format("{}", fmt::join(o.ranks, ",")); }},
    {"interface", "DMLC_INTERFACE", "the name of a network interface, such as eth0", set_interface,
     [](const Options& o) { return o.interface; }},
    variable<&Options::encrypt>("encrypt", "TUTTI_ENCRYPT"),
    variable<&Options::user_makes_no_mpi_calls>("user_makes_no_mpi_calls",
                                                "TUTTI_USER_MAKES_NO_MPI_CALLS"),
    variable<&Options::reproducible>("reproducible", "TUTTI_REPRODUCIBLE"),
    {"staleness", "TUTTI_STALENESS", "off, or a whole number up to 1000000, such as 2",
     set_staleness,
     [](const Options& o) {
       return o.staleness ? std::to_string(*o.staleness) : std::string(no_bound);
     }},
    {"gpu", "TUTTI_GPU", "auto, or a GPU's number from 0 on", set_gpu,
     [](const Options& o) { return o.gpu ? std::to_string(*o.gpu) : std::string(automatic); }},
    variable<&Options::stall_report_after>("stall_report_after", "TUTTI_STALL_SECONDS"),
    variable<&Options::key_timeout>("key_timeout", "TUTTI_TIMEOUT_SECONDS"),
    variable<&Options::heartbeat_timeout>("heartbeat_timeout", "TUTTI_HEARTBEAT_SECONDS"),
    variable<&Options::create_timeout>("create_timeout", "TUTTI_CREATE_SECONDS"),
    {"log_level", "TUTTI_LOG", "off, critical, error, warning, info, debug or trace", set_log_level,
     [](const Options& o) { return o.log_level; }},
    {"timeline", "TUTTI_TIMELINE", "the path of a file to write, such as trace.json",
     [](Options& o, std::string_view text) {
       o.timeline = text;
       return true;
     },
     [](const Options& o) { return o.timeline; }},
    variable<&Options::replay>("replay", "TUTTI_REPLAY"),
    variable<&Options::fusion_bytes>("fusion_bytes", "TUTTI_FUSION_BYTES"),
    variable<&Options::part_bytes>("part_bytes", "TUTTI_PART_BYTES"),
    variable<&Options::slice_bytes>("slice_bytes", "TUTTI_SLICE_BYTES"),
});

constexpr std::string_view mode_variable = "TUTTI_MODE";

[[noreturn]] void refuse_value(std::string_view name, std::string_view value,
                               std::string_view accepts) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("environment variable {}={} is not usable; it takes {}", name,
                          base::quoted(value), accepts));
}

}  // namespace

std::span<const OptionVariable> option_variables() {
  return variables;
}

Environment process_environment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

Options options_from(const Environment& environment) {
  Options options;
  for (const auto& [name, value] : environment) {
    const auto* const variable =
        std::find_if(variables.begin(), variables.end(),
                     [&name = name](const OptionVariable& v) { return v.name == name; });
    if (variable != variables.end() && !name.empty()) {
      if (!variable->set(options, value)) refuse_value(name, value, variable->accepts);
      continue;
    }
    check_name_of_variable(name);
  }
  return options;
}

void check(const Options& options) {
  for (const OptionVariable& variable : variables) {
    Options parsed;
    const std::string value = variable.show(options);
    if (variable.set(parsed, value)) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("Options::{}{} is {}; it takes {}", variable.field,
                            variable.name.empty() ? "" : fmt::format(" ({})", variable.name),
                            base::printable(value), variable.accepts));
  }
}

Options Options::from_env() {
  return options_from(process_environment());
}

void Options::set(std::string_view field, std::string_view value) {
  const auto* const variable =
      std::find_if(variables.begin(), variables.end(),
                   [&](const OptionVariable& v) { return v.field == field; });
  if (variable == variables.end()) {
    std::vector<std::string_view> known;
    known.reserve(variables.size());
    for (const OptionVariable& one : variables) known.push_back(one.field);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("option {} is not known{} (known: {})", base::quoted(field),
                            base::suggestion(field, known), fmt::join(known, ", ")));
  }
  // The setter may change the field before it refuses the value, so it works on a copy.
  Options changed = *this;
  if (variable->set(changed, value)) {
    *this = std::move(changed);
    return;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("option {} is {}, which is not usable; it takes {}", field,
                          base::quoted(value), variable->accepts));
}

LaunchMode launch_mode(const Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (name != mode_variable) continue;
    if (value == "mpi") return LaunchMode::mpi;
    if (value == "ps") return LaunchMode::ps;
    refuse_value(name, value, "ps or mpi (the launcher sets it)");
  }
  return LaunchMode::none;
}

}  // namespace tutti
