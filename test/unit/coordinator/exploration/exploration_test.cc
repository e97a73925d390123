#include <catch2/catch.hpp>
#include <iostream>

#include "scenarios.h"

using namespace tutti::coordinator::test;

namespace {

void explore_all(const std::vector<Scenario>& scenarios) {
  Found all;
  for (const Scenario& scenario : scenarios) {
    const Found found = explore(scenario.start, scenario.search);
    std::cout << scenario.name << ": " << found.states << " states, " << found.transitions
              << " transitions, " << found.ends << " ends" << std::endl;
    std::string path;
    for (const std::string& event : found.path) path += "\n  " + event;
    INFO(scenario.name << path);
    CHECK(found.violation.value_or("none") == "none");
    all.states += found.states;
    all.transitions += found.transitions;
  }
  std::cout << "together: " << all.states << " states, " << all.transitions << " transitions\n";
}

std::vector<Scenario> those_that_are(bool large) {
  std::vector<Scenario> all = quick_scenarios();
  std::erase_if(all, [&](const Scenario& one) { return one.is_large != large; });
  return all;
}

}  // namespace

TEST_CASE("no order of events breaks an invariant or leaves anybody waiting") {
  explore_all(those_that_are(false));
}

TEST_CASE("nor where there are many orders of events", "[many orders][slow]") {
  explore_all(those_that_are(true));
}

TEST_CASE("nor does any with three ranks and three keys", "[three keys][slow]") {
  explore_all(slow_scenarios());
}

TEST_CASE(
    "trying one order of what cannot influence one another misses no end and no rank's state") {
  for (const Scenario& scenario : scenarios_to_reduce()) {
    INFO(scenario.name);
    const Found all = explore(scenario.start, {.reduce = false, .count_rank_states = true});
    const Found fewer = explore(scenario.start, {.reduce = true, .count_rank_states = true});
    CHECK(fewer.ends == all.ends);
    CHECK(fewer.rank_states == all.rank_states);
    CHECK(fewer.states < all.states);
    CHECK_FALSE(fewer.violation);
  }
}
