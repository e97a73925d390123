#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "base/mapping.h"
#include "collective/engine.h"
#include "driver.h"
#include "shm/arena.h"

/// A rank of the node under test, on a thread of its own.
struct Rank {
  int index;
  tutti::collective::Engine& engine;
  Driver& driver;
  tutti::shm::Arena& arena;
  std::mt19937_64 random;
};

/// A node whose ranks are threads. All see the same mapping of each memory file, so that the
/// thread sanitizer sees all of them.
class Node {
 public:
  /// `groupings`: by rank, for batches with ends of their own; none: they have no groups.
  Node(int ranks, const tutti::collective::Tuning& tuning,
       const std::vector<tutti::collective::Grouping*>& groupings = {});
  int size() const { return static_cast<int>(engines_.size()); }
  /// The memory between ends of their own.
  std::span<std::byte> own_staging() const { return own_segment_.span(); }
  /// Runs `body` for each rank at once; rethrows what the first to fail threw.
  void run(const std::function<void(Rank&)>& body);

 private:
  std::deque<tutti::topology::Topology> topologies_;
  std::vector<tutti::base::Doorbell> bells_;
  std::vector<std::shared_ptr<tutti::shm::Arena>> arenas_;
  tutti::base::Fd segment_file_;
  tutti::base::Mapping segment_;
  tutti::base::Fd own_file_;
  tutti::base::Mapping own_segment_;  ///< for batches with ends of their own
  std::deque<tutti::shm::NodeMemory> memories_;
  std::deque<tutti::shm::NodeMemory> own_memories_;
  std::deque<tutti::collective::Engine> engines_;
  std::deque<Driver> drivers_;
};
