#include "optimizer/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/names.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::optimizer {
namespace {

bool is_within(double value, Domain range) {
  switch (range) {
    case Domain::any:
      return std::isfinite(value);
    case Domain::not_negative:
      return std::isfinite(value) && value >= 0;
    case Domain::positive:
      return std::isfinite(value) && value > 0;
    case Domain::fraction:
      return value >= 0 && value < 1;
    case Domain::flag:
      return value == 0 || value == 1;
  }
  return false;
}

std::string_view words(Domain range) {
  switch (range) {
    case Domain::any:
      return "a finite number";
    case Domain::not_negative:
      return "a finite number of 0 or more";
    case Domain::positive:
      return "a finite number above 0";
    case Domain::fraction:
      return "a number from 0 to below 1";
    case Domain::flag:
      return "0 or 1";
  }
  return "";
}

[[noreturn]] void refuse_unknown(std::string_view rule, std::span<const Known> known,
                                 std::string_view name) {
  std::vector<std::string_view> names;
  for (const Known& each : known) names.push_back(each.name);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("optimizer '{}' has no parameter {}{} (it has: {})", rule, base::quoted(name),
                  base::suggestion(name, names), fmt::join(names, ", ")));
}

}  // namespace

Parameters::Parameters(std::string_view rule, std::span<const Known> known,
                       const std::map<std::string, double>& given) {
  for (const Known& each : known) values_.emplace(each.name, each.otherwise);
  for (const auto& [name, value] : given) {
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&, &wanted = name](const Known& k) { return k.name == wanted; });
    if (it == known.end()) refuse_unknown(rule, known, name);
    if (!is_within(value, it->range)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("optimizer '{}': {} is {}, and must be {}", rule, name, value,
                              words(it->range)));
    }
    values_[it->name] = value;
  }
}

}  // namespace tutti::optimizer
