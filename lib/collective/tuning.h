#pragma once
#include <cstddef>

#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// What every rank has at least.
struct Machine {
  std::size_t cache_bytes = 0;  ///< of the last-level cache that ranks share
  int processors = 1;           ///< that it may run on
};

/// How data moves. Equal on all ranks, but `small_bytes` and `sums_together` only on those of a
/// node.
struct Tuning {
  std::size_t slice_bytes = std::size_t{128} << 10;  ///< what one rank reduces of a chunk
  std::size_t small_bytes = std::size_t{16} << 10;   ///< exchanged whole with the gate
  std::size_t slots = 2;                             ///< chunks under way at once
  std::size_t cache_bytes = std::size_t{32} << 20;   ///< the last-level cache that ranks share
  bool sums_together = false;  ///< whoever runs sums small messages for everybody

  /// `slice_bytes` 0: the default.
  static Tuning choose(const topology::Topology& topology, std::size_t slice_bytes,
                       const Machine& machine);
  shm::NodeMemory::Layout layout(const topology::Topology& topology) const;
};

}  // namespace tutti::collective
