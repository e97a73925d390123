#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "threads.h"

// One rank with a communication thread and user threads, and a peer that arrives at its gates.
namespace tutti::test {

struct Scenario {
  std::string name;
  std::function<std::unique_ptr<Shared>()> make;
  std::vector<ThreadBody> bodies;
  Search search;
};

/// Scenarios without preemption: a thread goes on until it sleeps, yields, or comes to an action
/// that may take any time.
std::vector<Scenario> quick_scenarios();
/// Scenarios with one preemption, anywhere.
std::vector<Scenario> usual_scenarios();
/// Scenarios with any number of preemptions if one thread waits. Otherwise they have one, or none
/// if two threads wait.
std::vector<Scenario> slow_scenarios();

}  // namespace tutti::test
