#include <catch2/catch.hpp>
#include <iostream>
#include <random>
#include <unordered_set>

#include "launch_world.h"
#include "tutti/error.h"

using namespace tutti::shm;
using namespace tutti::shm::test;
using Fault = Setup::Fault;

namespace {

constexpr std::size_t most_states = 3'000'000;

struct Found {
  std::size_t states = 0;
  std::size_t ends = 0;
  std::size_t most_open = 0;
  std::string violation = "none";
  std::vector<std::string> path{};  ///< that leads to it
};

/// Tries every order of steps, each state once.
class Explorer {
 public:
  Found explore(const Setup& setup) {
    try {
      visit(World(setup));
    } catch (const Violation& violation) {
      found_.violation = violation.what;
    } catch (const tutti::Error& error) {
      found_.violation = error.what();
    }
    found_.states = seen_.size();
    return found_;
  }

 private:
  void visit(const World& world) {
    if (!seen_.insert(world.mark()).second) return;
    if (seen_.size() > most_states) throw Violation{"too many states"};
    found_.most_open = std::max(found_.most_open, world.most_open());
    const std::vector<Step> steps = world.steps();
    if (steps.empty()) {
      ++found_.ends;
      world.check_end();
    }
    for (const Step& step : steps) {
      found_.path.push_back(step.text());
      World next = world;
      next.take(step);
      visit(next);
      found_.path.pop_back();
    }
  }

  std::unordered_set<std::string> seen_;
  Found found_;
};

/// Takes possible steps by chance until there is none.
Found walk(const Setup& setup, std::mt19937_64& random) {
  Found found;
  try {
    World world(setup);
    for (std::vector<Step> steps = world.steps(); !steps.empty(); steps = world.steps()) {
      const Step& step = steps[random() % steps.size()];
      found.path.push_back(step.text());
      world.take(step);
    }
    world.check_end();
    found.most_open = world.most_open();
  } catch (const Violation& violation) {
    found.violation = violation.what;
  } catch (const tutti::Error& error) {
    found.violation = error.what();
  }
  return found;
}

std::string text_of(const Found& found) {
  std::string text;
  for (const std::string& step : found.path) text += "\n  " + step;
  return text;
}

Setup with_fault(Setup setup, Fault fault) {
  setup.fault = fault;
  return setup;
}

struct Scenario {
  std::string name;
  Setup setup;
};

std::vector<Scenario> scenarios() {
  const auto words = [](int slots) { return LaunchLog::words(static_cast<std::size_t>(slots)); };
  const std::vector<bool> none(4, false);
  const std::vector<bool> all(4, true);
  const std::vector<std::vector<bool>> one_lane{{false, true}, {true, false}, {false, true}};
  return {
      {"one node", {.ranks = {3}, .chunks = 4, .slots = 2, .words = words(2)}},
      {"2 nodes, one slot", {.ranks = {3, 3}, .chunks = 3, .slots = 1, .words = words(1)}},
      {"2 nodes, 2 slots", {.ranks = {2, 2}, .chunks = 4, .slots = 2, .words = words(2)}},
      {"2 nodes, all slots", {.ranks = {2, 2}, .chunks = 3, .slots = 3, .words = words(3)}},
      {"2 nodes, 3 ranks each", {.ranks = {3, 3}, .chunks = 3, .slots = 2, .words = words(2)}},
      {"3 nodes", {.ranks = {2, 2, 2}, .chunks = 2, .slots = 2, .words = words(2)}},
      {"uneven nodes", {.ranks = {3, 2}, .chunks = 3, .slots = 2, .words = words(2)}},
      {"small chunks",
       {.ranks = {2, 2}, .chunks = 3, .slots = 2, .empty = one_lane, .words = words(2)}},
      {"small chunks whose sends wait",
       {.ranks = {3, 2},
        .chunks = 3,
        .slots = 2,
        .empty = one_lane,
        .sends_wait = true,
        .words = words(2)}},
      {"inputs that wait for results",
       {.ranks = {2, 2},
        .chunks = 4,
        .slots = 3,
        .behind = {{0, 1, 1, 3}, {0, 0, 2, 1}},
        .words = words(3)}},
      {"one node without NCCL",
       {.ranks = {2, 2, 2},
        .chunks = 3,
        .slots = 2,
        .by_host = {none, all, none},
        .words = words(2)}},
      {"nodes that use NCCL for some chunks",
       {.ranks = {2, 2},
        .chunks = 4,
        .slots = 2,
        .by_host = {{true, false, false, true}, {false, false, true, false}},
        .words = words(2)}},
  };
}

/// A world in which NCCL, the host, empty slices and waiting inputs come in any mixture.
Setup any_setup(std::mt19937_64& random) {
  const auto up_to = [&](int most) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(most));
  };
  Setup setup{.chunks = up_to(12), .slots = up_to(4), .sends_wait = up_to(2) == 1};
  setup.ranks.assign(static_cast<std::size_t>(up_to(4)), 0);
  for (int& ranks : setup.ranks) ranks = up_to(5);
  for (int chunk = 0; chunk < setup.chunks; ++chunk) {
    auto& empty = setup.empty.emplace_back();
    for (int lane = 0; lane < 5; ++lane) empty.push_back(up_to(3) == 1);
  }
  for (int local = 0; local < 5; ++local) {
    auto& behind = setup.behind.emplace_back();
    for (int chunk = 0; chunk < setup.chunks; ++chunk) {
      behind.push_back(up_to(2) == 1 ? chunk : up_to(chunk + 1) - 1);
    }
  }
  for (std::size_t node = 0; node < setup.ranks.size(); ++node) {
    auto& by_host = setup.by_host.emplace_back();
    for (int chunk = 0; chunk < setup.chunks; ++chunk) by_host.push_back(up_to(4) == 1);
  }
  setup.words = LaunchLog::words(static_cast<std::size_t>(setup.slots));
  return setup;
}

}  // namespace

TEST_CASE("in no order of events do ranks launch differently, wait for ever or overrun a ring") {
  for (const Scenario& scenario : scenarios()) {
    const Found found = Explorer().explore(scenario.setup);
    std::cout << scenario.name << ": " << found.states << " states, " << found.ends
              << " ends, at most " << found.most_open << " launches open" << std::endl;
    INFO(scenario.name << text_of(found));
    CHECK(found.violation == "none");
    CHECK(2 * found.most_open <= scenario.setup.words);
  }
}

TEST_CASE("nor do they in random orders of larger worlds") {
  std::size_t open_by_slots = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const Setup setup = any_setup(random);
    const Found found = walk(setup, random);
    INFO("seed " << seed << text_of(found));
    REQUIRE(found.violation == "none");
    REQUIRE(2 * found.most_open <= setup.words);
    if (setup.slots == 4) open_by_slots = std::max(open_by_slots, found.most_open);
  }
  std::cout << "by chance: at most " << open_by_slots << " launches open with 4 slots" << std::endl;
}

TEST_CASE("ranks that launch in an order of their own are found") {
  const Setup setup{.ranks = {2, 2}, .chunks = 2, .slots = 2, .words = LaunchLog::words(2)};
  const Found found = Explorer().explore(with_fault(setup, Fault::own_order));
  CHECK(found.violation ==
        "launch 2 of a node is the gather of chunk 0 on one rank, the scatter of chunk 1 on "
        "another");
}

TEST_CASE("a first rank that appends a launch when only it is ready is found: an input may wait") {
  const Setup setup{.ranks = {2},
                    .chunks = 2,
                    .slots = 2,
                    .behind = {{0, 1}, {0, 0}},
                    .words = LaunchLog::words(2)};
  CHECK(Explorer().explore(setup).violation == "none");
  const Found found = Explorer().explore(with_fault(setup, Fault::first_alone));
  INFO(text_of(found));
  CHECK(found.violation.find("all wait: ") == 0);
}

TEST_CASE("a gather that is launched before its exchange has ended is found") {
  const Setup setup{.ranks = {2, 2}, .chunks = 2, .slots = 2, .words = LaunchLog::words(2)};
  const Found found = Explorer().explore(with_fault(setup, Fault::early_gather));
  INFO(text_of(found));
  CHECK(found.violation == "all wait: node 0, rank 0 is done with 0 chunks");
  // On one node there is no exchange, so nothing is early.
  const Setup alone{.ranks = {3}, .chunks = 2, .slots = 2, .words = LaunchLog::words(2)};
  CHECK(Explorer().explore(with_fault(alone, Fault::early_gather)).violation == "none");
}

TEST_CASE("a ring that is too small is found, and so is a scatter that waits for no slot") {
  const Setup small{.ranks = {2}, .chunks = 4, .slots = 3, .words = 2};
  CHECK(Explorer().explore(small).violation.find("launches ahead") != std::string::npos);
  const Setup setup{.ranks = {2}, .chunks = 6, .slots = 1, .words = LaunchLog::words(1)};
  CHECK(Explorer().explore(setup).violation == "none");
  const Found found = Explorer().explore(with_fault(setup, Fault::no_slots));
  CHECK(found.violation.find("launches ahead") != std::string::npos);
}
