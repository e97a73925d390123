#include "seeded_bugs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>

#include "scenarios.h"

// This program is linked with copies of the protocol's sources that hold faults. What finds none of
// them would find no other.
namespace tutti::coordinator::test {
namespace {

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
  const std::vector<Scenario> all = quick_scenarios();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Scenario& one) { return one.name == name; });
  if (at == all.end()) throw Violation{"no scenario is called " + name};
  return *at;
}

void must_be_found(const std::string& bug, const Scenario& where) {
  const Found found = explore(where.start, where.search);
  seeded = none;
  INFO(bug << ": " << found.states << " states of " << where.name);
  REQUIRE(found.violation);
  CHECK_FALSE(found.gave_up);
  const std::string line = found.violation->substr(0, found.violation->find('\n'));
  std::cout << bug << "\n  found after " << found.states << " states, " << found.path.size()
            << " events, in " << where.name << ":\n  " << line << std::endl;
}

}  // namespace

}  // namespace tutti::coordinator::test

bool tutti::test::is_seeded(std::size_t number) {
  return number == coordinator::test::seeded;
}

namespace tutti::coordinator::test {

TEST_CASE("a fault in the protocol is found") {
  for (std::size_t number = 0; number < bugs.size(); ++number) {
    DYNAMIC_SECTION(bugs[number].name) {
      const Scenario where = scenario(bugs[number].scenario);
      seeded = number;
      must_be_found(bugs[number].name, where);
    }
  }
}

TEST_CASE("a gate that takes a flag of a later epoch for its own is found") {
  must_be_found("a gate opens at \"at least\" its epoch", with_late_flags());
}

TEST_CASE("if no fault is switched on, none is found") {
  const Scenario where = scenario("from negotiation into replay");
  CHECK(explore(where.start, where.search).violation.value_or("none") == "none");
}

}  // namespace tutti::coordinator::test
