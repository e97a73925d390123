#include "ps/scheduler/moments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace tutti::ps {
namespace {

/// Describes a moment: "server 1: 12", or "server 1: 12 (its last)" if no later state has followed.
std::string describe(const Moment& moment) {
  return fmt::format("server {}: {}{}", moment.server, moment.rounds,
                     moment.is_last ? " (its last)" : "");
}

}  // namespace

std::string difference_of(const std::vector<Moment>& moments) {
  const bool all_are_last = std::ranges::all_of(moments, &Moment::is_last);
  const bool differ =
      std::ranges::adjacent_find(moments, std::not_equal_to(), &Moment::rounds) != moments.end();
  if (all_are_last || !differ) return "";
  // The most servers that a person reads.
  constexpr std::size_t most_named = 16;
  std::vector<std::string> named;
  for (const Moment& one : moments) {
    if (named.size() < most_named) named.push_back(describe(one));
  }
  return fmt::format(
      "the states of the servers that this job begins with are of different moments, unless its "
      "keys were pushed unequally often: the earlier job did not end in order, and the most rounds "
      "that a key had been in were: {}{}. Values and what the optimizer keeps are then of no one "
      "step: begin with a saved model instead. With --durable a killed server goes on in its job",
      fmt::join(named, ", "), named.size() < moments.size() ? ", ..." : "");
}

}  // namespace tutti::ps
