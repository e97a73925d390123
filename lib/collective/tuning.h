#pragma once
#include <cstddef>

#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Sizes of the pipeline. `slice_bytes`, `slots` and `cache_bytes` are equal on all ranks,
/// `small_bytes` on those of a node.
struct Tuning {
  std::size_t slice_bytes = std::size_t{128} << 10;  ///< what one rank reduces of a chunk
  std::size_t small_bytes = std::size_t{16} << 10;   ///< exchanged whole with the gate
  std::size_t slots = 2;                             ///< chunks under way at once
  std::size_t cache_bytes = std::size_t{32} << 20;   ///< the last-level cache that ranks share

  /// `slice_bytes` 0: the default. `cache_bytes`: the same on all ranks, though their machines'
  /// caches may differ.
  static Tuning choose(const topology::Topology& topology, std::size_t slice_bytes,
                       std::size_t cache_bytes);
  shm::NodeMemory::Layout layout(const topology::Topology& topology) const;
};

}  // namespace tutti::collective
