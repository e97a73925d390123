#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/batch.h"
#include "collective/node_sum.h"
#include "collective/piggyback.h"
#include "collective/route.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Batches up to an eager limit (`choose_way`). Every rank copies its input into shared memory
/// before it arrives at the gate. So all inputs are there once the gate has closed.
///
/// On one node each rank then computes its whole result by itself, and waits only for the gate. If
/// ranks outnumber processors, that would do the same work many times. In that case the ranks that
/// run first compute an allreduce for all (`sum_together`), unless the batch is tiny.
///
/// With several nodes each leader sums the inputs of its node's ranks, and the sums are piggybacked
/// on the gate's messages. Each leader writes the whole result to the place of its own input. The
/// batch needs no messages besides the gate's. The eager limit depends on what is carried
/// (`carried_by_gate`).
class Small {
 public:
  /// The references outlive this object.
  Small(const topology::Topology& topology, const shm::NodeMemory& memory, const Site& site)
      : topology_(topology),
        memory_(memory),
        site_(site),
        sum_(std::max(memory.layout().eager_bytes, memory.layout().half_bytes)),
        sum_of_nodes_(topology) {}

  /// Puts this rank's input into shared memory. Call it before the gate of the batch, the
  /// `sequence`-th of the session.
  void put(const Batch& batch, std::uint64_t sequence) const;
  /// Returns the data that the gate is to carry, made from the inputs of the node's ranks. A leader
  /// calls it, with several nodes.
  Piggyback::Load pack(const Batch& batch, std::uint64_t sequence);
  /// Makes the result from the data that came with the gate. A leader calls it after the gate, with
  /// several nodes.
  void unpack(const Batch& batch, std::uint64_t sequence, Piggyback& piggyback);
  /// Finishes the batch on this rank. Call it after the gate.
  void finish(const Batch& batch, std::uint64_t sequence);
  /// Memory for a half (`Layout::half_bytes`). It is valid until the next small batch.
  std::span<std::byte> scratch() { return sum_; }
  /// The bytes that it holds outside the node's memory.
  std::size_t buffer_bytes() const { return sum_.capacity(); }

 private:
  std::size_t node_of(int rank) const {
    return static_cast<std::size_t>(topology_.node_of[static_cast<std::size_t>(rank)]);
  }
  void put_shares(const Batch& batch, std::byte* to) const;
  void gather_sources(std::uint64_t sequence);
  void sum(const reduce::Kernel& kernel, topology::Range range, std::byte* to);
  void sum_together(const Batch& batch, const reduce::Kernel& kernel, std::uint64_t sequence);
  void finish_allreduce(const Batch& batch, std::uint64_t sequence);
  void finish_reduce_scatter(const Batch& batch, std::uint64_t sequence);
  void finish_allgather(const Batch& batch, std::uint64_t sequence) const;
  void finish_all_to_all(const Batch& batch, std::uint64_t sequence) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const Site& site_;
  std::vector<const void*> sources_;
  std::vector<const void*> offset_sources_;  ///< of the sources
  std::vector<std::byte> sum_;
  NodeSum sum_of_nodes_;
  std::vector<std::byte*> blocks_;
};

}  // namespace tutti::collective
