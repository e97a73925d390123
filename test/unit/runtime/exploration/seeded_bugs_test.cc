#include "seeded_bugs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>

#include "job.h"

// This program is linked with copies of the sources that hold faults. An exploration that finds
// none of them would find no other.
namespace {

using namespace tutti::test;

struct Bug {
  std::string name;
  std::string scenario;
};

const std::vector<Bug> bugs = {
#include "seeded_bugs.inc"
};

constexpr std::size_t none = static_cast<std::size_t>(-1);
std::size_t seeded = none;

Scenario scenario(const std::string& name) {
  const std::vector<Scenario> all = usual_scenarios();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Scenario& one) { return one.name == name; });
  REQUIRE(at != all.end());
  return *at;
}

Found explore(const Scenario& where) {
  const std::unique_ptr<Shared> job = where.make();
  return Threads::explore(*job, where.bodies, where.search);
}

}  // namespace

bool tutti::test::is_seeded(std::size_t number) {
  return number == seeded;
}

TEST_CASE("a fault in the progress lock is found") {
  for (std::size_t number = 0; number < bugs.size(); ++number) {
    DYNAMIC_SECTION(bugs[number].name) {
      const Scenario where = scenario(bugs[number].scenario);
      seeded = number;
      const Found found = explore(where);
      seeded = none;
      std::cout << bugs[number].name << ": found after " << found.states << " states of \""
                << where.name << "\": " << found.wrong << std::endl;
      CHECK(found.wrong != "");
    }
  }
}

TEST_CASE("if no fault is switched on, none is found") {
  CHECK(explore(scenario("one waits")).wrong == "");
}
