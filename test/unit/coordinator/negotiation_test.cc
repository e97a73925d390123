#include <catch2/catch.hpp>
#include <random>

#include "world.h"

using namespace tutti;
using namespace tutti::coordinator;
using namespace tutti::coordinator::test;

namespace {

/// Lets anything happen in a random order until nothing can.
void run(World& world, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int step = 0; step < 1000000; ++step) {
    const std::vector<Event> events = world.enabled();
    if (events.empty()) {
      world.check_end();
      return;
    }
    world.apply(events[random() % events.size()]);
  }
  throw Violation{"it never ends"};
}

Observed run(const std::vector<Program>& programs, const Settings& settings = {},
             std::uint64_t seed = 1) {
  World world(programs, {.settings = settings});
  Observed observed;
  world.observe(observed);
  try {
    run(world, seed);
  } catch (const Violation& violation) {
    FAIL(violation.what);
  }
  return observed;
}

}  // namespace

TEST_CASE("ranks that submit in different orders run the same batches in the same order") {
  const std::vector<Program> programs = {
      {submit(1), submit(2), submit(3), wait(1), wait(2), wait(3)},
      {submit(3), submit(2), submit(1), wait(3), wait(1)},
      {submit(2), submit(3), submit(1)}};
  for (std::uint64_t seed = 0; seed < 200; ++seed) run(programs, {}, seed);
}
