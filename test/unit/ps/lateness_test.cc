// Workers that are late at random, about as long as their calls may take, and call again.
#include <catch2/catch.hpp>

#include "unit/ps/lateness.h"

using namespace tutti::ps::lateness;

namespace {

void run(std::uint64_t seed, bool asynchronous) {
  INFO("seed " << seed);
  const Plan plan = plan_of(seed, asynchronous);
  World world(plan, seed);
  REQUIRE(world.run());
  if (asynchronous) {
    check_asynchronous(plan, world);
  } else {
    check(plan, world);
  }
}

}  // namespace

TEST_CASE(
    "whoever is late, every call ends alike on all workers, and right unless by a time limit") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) run(seed, false);
}

TEST_CASE("whoever is late, asynchronous broadcasts end alike on all, and each push counts once") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) run(seed, true);
}

TEST_CASE("whoever is late, at length", "[.][slow]") {
  for (std::uint64_t seed = 1000; seed < 11'000; ++seed) run(seed, seed % 4 == 0);
}
