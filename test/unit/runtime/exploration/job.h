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

/// With no preemption: a thread goes on until it sleeps, yields, or comes to something that may
/// take any time.
std::vector<Scenario> quick_scenarios();
/// With one preemption, anywhere.
std::vector<Scenario> usual_scenarios();
/// With any number of them where one thread waits; otherwise with one, or with none where two
/// threads wait.
std::vector<Scenario> slow_scenarios();

}  // namespace tutti::test
