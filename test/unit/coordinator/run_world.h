#pragma once
#include <catch2/catch.hpp>
#include <random>

#include "world.h"

namespace tutti::coordinator::test {

/// Lets anything happen in a random order until nothing can. Throws `Violation`.
inline void run_at_random(World& world, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int step = 0; step < 10'000'000; ++step) {
    const std::vector<Event> events = world.enabled();
    if (events.empty()) {
      world.check_end();
      return;
    }
    world.apply(events[random() % events.size()]);
  }
  throw Violation{"it never ends: " + world.describe()};
}

/// The whole way of one random run.
struct Run {
  explicit Run(const std::vector<Program>& programs, const Surroundings& surroundings = {},
               std::uint64_t seed = 1)
      : world(programs, surroundings) {
    world.observe(observed);
    INFO("seed " << seed);
    try {
      run_at_random(world, seed);
    } catch (const Violation& violation) {
      FAIL(violation.what);
    }
  }
  Run(const Run&) = delete;
  /// How a rank's n-th call ended: "" for a value.
  std::string outcome(int rank, std::size_t n) const {
    return world.calls(rank)[n].error.value_or("");
  }
  World world;
  Observed observed;
};

}  // namespace tutti::coordinator::test
