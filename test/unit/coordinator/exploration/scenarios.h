#pragma once
#include <string>
#include <vector>

#include "explore.h"

namespace tutti::coordinator::test {

/// A world that is to be explored from its present state.
struct Scenario {
  std::string name;
  World start;
  Search search{};
  bool is_large = false;  ///< whole it takes ten seconds or so; the others take less than two
};

/// In these scenarios every seeded bug is found in seconds.
std::vector<Scenario> quick_scenarios();
/// Some that `Search::reduce` serves.
std::vector<Scenario> scenarios_to_reduce();
/// A world with a fault: gates open at flags of later epochs.
Scenario with_late_flags();
/// Three ranks and three keys: minutes.
std::vector<Scenario> slow_scenarios();

}  // namespace tutti::coordinator::test
