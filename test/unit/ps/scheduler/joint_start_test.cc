// Two servers begin a job together, and their machines go down, or both are killed, at any moment.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "ps/scheduler/registry.h"
#include "tutti/version.h"
#include "unit/ps/durable/simulated_disk.h"
#include "unit/ps/durable/simulated_server.h"
#include "unit/ps/scheduler/heard.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

constexpr std::array<std::size_t, 2> ranks{0, 1};
constexpr std::uint64_t requests = 5;
const SimulatedServer::How how{.durability = {.when = Durability::When::each}, .lag = 0};

using Disks = std::array<std::shared_ptr<SimulatedDisk>, 2>;
/// How many operations of each disk were done.
using Progress = std::array<std::size_t, 2>;

Disks with(const std::array<SimulatedFiles, 2>& files) {
  return {std::make_shared<SimulatedDisk>(files[0]), std::make_shared<SimulatedDisk>(files[1])};
}

Progress now(const Disks& disks) {
  return {disks[0]->operations().size(), disks[1]->operations().size()};
}

/// A job that begins with what both bring. Returns when both were ready: until then none has heard
/// that it begins.
Progress begin(const Disks& disks, std::uint64_t job) {
  HeardFromScheduler heard;
  Registry registry(
      {.workers = 1, .servers = 2}, 1'000'000,
      [&](Registry::Node node, const FromScheduler& said) { heard.add(node, said); }, job);
  const auto node_of = [](std::size_t rank) { return Registry::Node{rank} + 2; };
  registry.receive(1, Register{Role::worker, -1, 1, 2, version()});
  std::vector<std::unique_ptr<SimulatedServer>> servers;
  for (const std::size_t rank : ranks) {
    servers.push_back(std::make_unique<SimulatedServer>(disks.at(rank), how));
    Register said{Role::server, static_cast<int>(rank), 1, 2, version(), false, "127.0.0.1", 70};
    said.brings.clear();
    const auto& brought = servers.back()->brought();
    if (brought.empty()) said.brings.push_back({});
    for (const CountedRequests& one : brought) said.brings.push_back({.job = one.job});
    registry.receive(node_of(rank), said);
  }
  for (const std::size_t rank : ranks) {
    const auto begins_with = heard.last<Welcome>(node_of(rank)).begins_with;
    servers[rank]->prepare(begins_with, job);
    if (servers[rank]->state().requests != requests) FAIL("server " << rank << " has begun anew");
    registry.receive(node_of(rank), Ready{});
  }
  const Progress ready = now(disks);
  for (const std::size_t rank : ranks) {
    heard.last<Begin>(node_of(rank));
    servers[rank]->begin();
  }
  return ready;
}

/// The states that both servers have of an earlier job.
Disks after_a_job() {
  std::array<SimulatedFiles, 2> files;
  for (const std::size_t rank : ranks) {
    const auto disk = std::make_shared<SimulatedDisk>();
    SimulatedServer server(disk, how);
    server.prepare(0, 1);
    server.begin();
    for (std::uint64_t i = 0; i < requests; ++i) server.take_request();
    server.store();
    EveryChoice none;
    files.at(rank) = disk->content_after(disk->operations().size()).after_power_cut(none);
  }
  return with(files);
}

/// None has begun before both were ready.
bool may_be(const Progress& moment, const Progress& ready) {
  return (moment[0] <= ready[0] && moment[1] <= ready[1]) ||
         (moment[0] >= ready[0] && moment[1] >= ready[1]);
}

}  // namespace

TEST_CASE("two servers begin again from the same state, whenever their machines went down") {
  const Quiet quiet;
  const Disks disks = after_a_job();
  const Progress ready = begin(disks, 2);
  const auto states_at = [&](std::size_t rank, std::size_t done) {
    std::vector<SimulatedFiles> states;
    EveryChoice choice;
    do {
      states.push_back(disks.at(rank)->content_after(done).after_power_cut(choice));
    } while (choice.next());
    std::ranges::sort(states);
    // clang 14 cannot compile std::ranges::unique of these.
    states.erase(std::unique(states.begin(), states.end()), states.end());
    return states;
  };
  const Progress end = now(disks);
  std::array<std::vector<std::vector<SimulatedFiles>>, 2> states;
  for (const std::size_t rank : ranks) {
    for (std::size_t done = 0; done <= end.at(rank); ++done) {
      states.at(rank).push_back(states_at(rank, done));
    }
  }
  std::size_t starts = 0;
  for (std::size_t first = 0; first <= end[0]; ++first) {
    for (std::size_t second = 0; second <= end[1]; ++second) {
      if (!may_be({first, second}, ready)) continue;
      for (const SimulatedFiles& one : states[0][first]) {
        for (const SimulatedFiles& other : states[1][second]) {
          begin(with({one, other}), 3);
          ++starts;
        }
      }
    }
  }
  CHECK(starts > 100);
}

TEST_CASE("they do so after several starts that were interrupted") {
  const Quiet quiet;
  std::minstd_rand random(1);
  for (int i = 0; i < 300; ++i) {
    Disks disks = after_a_job();
    for (std::uint64_t job = 2; job < 6; ++job) {
      const Progress before = now(disks);
      const Progress ready = begin(disks, job);
      const Progress end = now(disks);
      Progress done;
      do {
        for (const std::size_t rank : ranks) {
          done.at(rank) = before.at(rank) + random() % (end.at(rank) - before.at(rank) + 1);
        }
      } while (!may_be(done, ready));
      AnyChoice choice(random);
      for (const std::size_t rank : ranks) {
        const bool is_power_cut = random() % 2 == 0;
        disks.at(rank) =
            is_power_cut ? std::make_shared<SimulatedDisk>(
                               disks.at(rank)->content_after(done.at(rank)).after_power_cut(choice))
                         : disks.at(rank)->until(done.at(rank));
      }
    }
    begin(disks, 6);
  }
}
