#pragma once
#include <cstddef>

#include "collective/staging_stores.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// The hardware on which the ranks of a node run.
struct Machine {
  /// The bytes of the shared last-level cache on which the ranks can count. The smallest of all
  /// nodes.
  std::size_t cache_bytes = 0;
  int processors = 1;  ///< the processors on which this node's ranks may run

  bool crowded(const topology::Topology& topology) const {
    return topology.local_size() > processors;
  }
};

/// Whether two ranks are alone on one node.
bool takes_halves(const topology::Topology& topology);

/// The settings by which data moves. They are equal on all ranks.
struct Tuning {
  std::size_t slice_bytes = std::size_t{128} << 10;  ///< the part of a chunk that one rank sums
  std::size_t eager_bytes = std::size_t{16}
                            << 10;  ///< the eager limit: up to here data moves with the gate
  std::size_t slots = 2;            ///< chunks under way at once
  std::size_t cache_bytes = std::size_t{32} << 20;  ///< `Machine::cache_bytes`
  bool sums_together = false;  ///< the ranks that run first sum small batches for all
  /// Two ranks that are alone on one node: the least batch that moves by halves (`Halves`), and
  /// what each rank sums of one of its chunks. Elsewhere no batch moves in this way.
  std::size_t halves_from = SIZE_MAX;
  std::size_t half_bytes = 0;
  StagingStores::Pacing staging = {};
  /// For batches of tensors on a GPU; see `slice_bytes` and `slots`.
  std::size_t device_slice_bytes = std::size_t{4} << 20;
  std::size_t device_slots = 8;

  /// `slice_bytes` 0 means the default.
  static Tuning choose(const topology::Topology& topology, std::size_t slice_bytes,
                       const Machine& machine);
  shm::NodeMemory::Layout layout(const topology::Topology& topology) const;
  /// The layout of the staging memory for tensors on a GPU.
  shm::NodeMemory::Layout device_layout(const topology::Topology& topology) const;
};

}  // namespace tutti::collective
