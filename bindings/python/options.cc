#include "python/options.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "python/arrays.h"
#include "tutti/error.h"

namespace tutti::python {
namespace {

using Milliseconds = std::chrono::milliseconds;

template <typename T>
void take(T& field, std::string_view name, std::string_view expected, nb::handle value) {
  if (nb::try_cast(value, field, false)) return;
  refuse_type(std::string(name) + " is " + std::string(expected), value);
}

void set(bool& field, std::string_view name, nb::handle value) {
  take(field, name, "True or False", value);
}

void set(std::string& field, std::string_view name, nb::handle value) {
  take(field, name, name == "timeline" ? "a str or a path" : "a str", value);
}

void set(std::size_t& field, std::string_view name, nb::handle value) {
  constexpr const char* expected = "a number of bytes, an int of at least 0";
  if (PyIndex_Check(value.ptr()) == 0) refuse_type(std::string(name) + " is " + expected, value);
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  if (nb::try_cast(number, field, false)) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(name) + " is " + nb::str(value).c_str() + "; it takes " + expected);
}

void set(std::optional<std::size_t>& field, std::string_view name, nb::handle value) {
  set(field.emplace(), name, value);
}

void set(std::optional<int>& field, std::string_view name, nb::handle value) {
  constexpr const char* expected = "a number of pushes, an int from 0 to 1000000";
  if (PyIndex_Check(value.ptr()) == 0) refuse_type(std::string(name) + " is " + expected, value);
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  if (nb::try_cast(number, field.emplace(), false)) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(name) + " is " + nb::str(value).c_str() + "; it takes " + expected);
}

void set(Milliseconds& field, std::string_view name, nb::handle value) {
  double seconds = 0;
  if (!nb::try_cast(value, seconds, true)) {
    refuse_type(std::string(name) + " is a number of seconds", value);
  }
  if (!(seconds > 0)) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is " + nb::str(value).c_str() +
                                                 "; it takes a number of seconds above 0");
  }
  // A longer time may not fit into Milliseconds. `create` refuses this limit, like every time that
  // is too long.
  constexpr double limit = 1e15;
  field = Milliseconds(std::llround(std::min(seconds, limit) * 1e3));
}

void set(std::vector<int>& field, std::string_view name, nb::handle value) {
  const std::string expected = std::string(name) + " is a list of ranks, which are ints";
  if (PyUnicode_Check(value.ptr()) != 0 || !nb::hasattr(value, "__iter__")) {
    refuse_type(expected, value);
  }
  for (const nb::handle rank : value) {
    // Integers of numpy are accepted, too.
    if (PyIndex_Check(rank.ptr()) == 0 || !nb::try_cast(nb::int_(rank), field.emplace_back())) {
      refuse_type(expected, rank);
    }
  }
  if (!field.empty()) return;
  throw Error(ErrorCode::invalid_argument,
              std::string(name) +
                  " is empty, but a store needs a rank; for a store over all ranks leave it out");
}

template <auto field>
void set_field(Options& options, std::string_view name, nb::handle value) {
  set(options.*field, name, value);
}

using Setter = void (*)(Options&, std::string_view, nb::handle);

const std::map<std::string_view, Setter>& setters() {
  static const std::map<std::string_view, Setter> all{
      {"ranks", set_field<&Options::ranks>},
      {"interface", set_field<&Options::interface>},
      {"encrypt", set_field<&Options::encrypt>},
      {"user_makes_no_mpi_calls", set_field<&Options::user_makes_no_mpi_calls>},
      {"reproducible", set_field<&Options::reproducible>},
      {"staleness", set_field<&Options::staleness>},
      {"gpu", set_field<&Options::gpu>},
      {"stall_report_after", set_field<&Options::stall_report_after>},
      {"key_timeout", set_field<&Options::key_timeout>},
      {"heartbeat_timeout", set_field<&Options::heartbeat_timeout>},
      {"create_timeout", set_field<&Options::create_timeout>},
      {"log_level", set_field<&Options::log_level>},
      {"timeline", set_field<&Options::timeline>},
      {"replay", set_field<&Options::replay>},
      {"fusion_bytes", set_field<&Options::fusion_bytes>},
      {"part_bytes", set_field<&Options::part_bytes>},
      {"slice_bytes", set_field<&Options::slice_bytes>},
  };
  return all;
}

}  // namespace

Options to_options(const nb::dict& chosen) {
  Options options = Options::from_env();
  for (const auto& [key, value] : chosen) {
    const auto name = nb::cast<std::string>(key);
    const auto setter = setters().find(name);
    if (setter == setters().end()) throw nb::type_error(("there is no option " + name).c_str());
    setter->second(options, name, value);
  }
  return options;
}

}  // namespace tutti::python
