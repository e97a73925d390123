#include <catch2/catch.hpp>
#include <iostream>

#include "job.h"

using namespace tutti::test;

namespace {

void explore_all(const std::vector<Scenario>& scenarios) {
  for (const Scenario& scenario : scenarios) {
    const std::unique_ptr<Shared> job = scenario.make();
    const Found found = Threads::explore(*job, scenario.bodies, scenario.search);
    std::cout << scenario.name << ": " << found.states << " states, " << found.steps << " steps, "
              << found.ends << " ends" << std::endl;
    std::string path;
    for (const std::string& step : found.path) path += "\n  " + step;
    INFO(scenario.name << path);
    CHECK(found.wrong == "");
    CHECK_FALSE(found.gave_up);
  }
}

}  // namespace

TEST_CASE("no order of the threads' steps lets a call sleep") {
  explore_all(quick_scenarios());
}

TEST_CASE("nor does any order with more preemptions", "[slow]") {
  explore_all(slow_scenarios());
}
