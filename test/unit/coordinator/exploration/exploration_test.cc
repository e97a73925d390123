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

}  // namespace

TEST_CASE("no order of events breaks an invariant or leaves anybody waiting") {
  explore_all(quick_scenarios());
}

TEST_CASE("nor with three ranks and three keys", "[slow]") {
  explore_all(slow_scenarios());
}
