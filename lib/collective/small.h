#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/batch.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Messages so small that waiting costs more than moving them, on one node: everyone puts its
/// input into memory of its own before it arrives at the gate, so that the closing gate itself says
/// that all data is there, and computes the whole result alone. One flag round trip.
class Small {
 public:
  /// The references outlive it.
  Small(const topology::Topology& topology, const shm::NodeMemory& memory)
      : topology_(topology), memory_(memory), sum_(memory.layout().small_bytes) {}

  bool takes(const Batch& batch) const;
  /// Before the gate of what is the `sequence`-th batch.
  void put(const Batch& batch, std::uint64_t sequence) const;
  /// Behind it.
  void finish(const Batch& batch, std::uint64_t sequence);
  /// Held outside the node's memory.
  std::size_t buffer_bytes() const { return sum_.capacity(); }

 private:
  void finish_allreduce(const Batch& batch, std::uint64_t sequence);
  void finish_reduce_scatter(const Batch& batch, std::uint64_t sequence);
  void finish_allgather(const Batch& batch, std::uint64_t sequence) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  std::vector<const void*> sources_;
  std::vector<std::byte> sum_;
};

}  // namespace tutti::collective
