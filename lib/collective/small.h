#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/batch.h"
#include "collective/node_sum.h"
#include "collective/piggyback.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Messages so small that waiting costs more than moving them: everyone puts its input into memory
/// of its own before it arrives at the gate, so that the closing gate itself says that all data is
/// there.
///
/// On one node everyone computes the whole result alone: one flag round trip. With more ranks than
/// processors that is the same work many times over, so whoever runs first computes an allreduce
/// for all, unless it is tiny (`sum_together`). With several, each
/// node's leader sums its ranks' inputs, the leaders' gate carries the sums or sums of them to all
/// of them, and each leaves the whole result where its own part was: no message more than the gate
/// has anyway. How much that may be depends on what it is (`Piggyback::Kind`).
class Small {
 public:
  /// The references outlive it.
  Small(const topology::Topology& topology, const shm::NodeMemory& memory)
      : topology_(topology),
        memory_(memory),
        sum_(memory.layout().small_bytes),
        sum_of_nodes_(topology) {}

  bool is_small(const Batch& batch) const;
  /// Before the gate of what is the `sequence`-th batch.
  void put(const Batch& batch, std::uint64_t sequence) const;
  /// On the leader of one node of several: what its ranks have put there, for the gate.
  Piggyback::Load pack(const Batch& batch, std::uint64_t sequence);
  /// On the same: from what came with the gate to the result.
  void unpack(const Batch& batch, std::uint64_t sequence, Piggyback& piggyback);
  /// Behind the gate.
  void finish(const Batch& batch, std::uint64_t sequence);
  /// Held outside the node's memory.
  std::size_t buffer_bytes() const { return sum_.capacity(); }

 private:
  bool several_nodes() const { return topology_.node_count() > 1; }
  std::size_t node_of(int rank) const {
    return static_cast<std::size_t>(topology_.node_of[static_cast<std::size_t>(rank)]);
  }
  /// How a gate between nodes carries it: none where it does not.
  Piggyback::Kind carried(const Batch& batch) const;
  void gather_sources(std::uint64_t sequence);
  void sum(const reduce::Kernel& kernel, topology::Range range, std::byte* to);
  void sum_together(const Batch& batch, const reduce::Kernel& kernel, std::uint64_t sequence);
  void finish_allreduce(const Batch& batch, std::uint64_t sequence);
  void finish_reduce_scatter(const Batch& batch, std::uint64_t sequence);
  void finish_allgather(const Batch& batch, std::uint64_t sequence) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  std::vector<const void*> sources_;
  std::vector<const void*> offset_sources_;  ///< of the sources
  std::vector<std::byte> sum_;
  NodeSum sum_of_nodes_;
  std::vector<std::byte*> blocks_;
};

}  // namespace tutti::collective
