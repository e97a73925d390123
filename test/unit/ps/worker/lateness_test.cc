// Workers that are late at random, about as long as their calls may take, and call again.
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "unit/ps/worker/lateness.h"

using namespace tutti::ps::lateness;

namespace {

/// Which calls were given up, and by whom: "push by worker 0", "init by another".
using GivenUp = std::set<std::string>;

void add_to(GivenUp& given_up, const World& world, int workers) {
  const std::string before = "timeout: ";
  for (int worker = 0; worker < workers; ++worker) {
    for (const Ending& end : world.ends_of(worker)) {
      if (!end.is_late()) continue;
      const std::string what = end.text.substr(before.size());
      const bool by_first = what.find("TUTTI_TIMEOUT_SECONDS) on worker 0:") != std::string::npos;
      given_up.insert(what.substr(0, what.find(' ')) + (by_first ? " by worker 0" : " by another"));
    }
  }
}

void run(std::uint64_t seed, bool asynchronous, GivenUp& given_up) {
  INFO("seed " << seed);
  const Plan plan = plan_of(seed, asynchronous);
  World world(plan, seed);
  REQUIRE(world.run());
  if (asynchronous) {
    check_asynchronous(plan, world);
  } else {
    check(plan, world);
  }
  add_to(given_up, world, plan.workers);
}

GivenUp run_some(bool asynchronous) {
  GivenUp given_up;
  for (std::uint64_t seed = 0; seed < 300; ++seed) run(seed, asynchronous, given_up);
  return given_up;
}

}  // namespace

TEST_CASE(
    "whichever worker is late, every call ends alike on all, and right unless by a time limit") {
  const GivenUp given_up = run_some(false);
  for (const std::string what : {"init", "broadcast", "push", "pushpull", "set_optimizer",
                                 "set_gradient_compression", "load_optimizer_states"}) {
    INFO(what);
    CHECK(given_up.contains(what + " by worker 0"));
    CHECK(given_up.contains(what + " by another"));
  }
}

TEST_CASE(
    "whichever worker is late, asynchronous broadcasts end alike on all, and each push counts "
    "once") {
  const GivenUp given_up = run_some(true);
  for (const std::string what : {"init", "broadcast", "push", "set_optimizer",
                                 "set_gradient_compression", "load_optimizer_states"}) {
    INFO(what);
    CHECK(given_up.contains(what + " by another"));
  }
}

TEST_CASE("whichever worker is late, at length", "[.][slow]") {
  GivenUp given_up;
  for (std::uint64_t seed = 1000; seed < 11'000; ++seed) run(seed, seed % 4 == 0, given_up);
}
