#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/exchange.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// This rank's lane: its exchanges with its kin, the ranks of the same local index on the other
/// nodes. There is one exchange for each slot of the pipeline. It is free when the slot is. One
/// thread at a time drives it.
class Lane {
 public:
  /// There are no exchanges on one node, where `communicator` is null, and none on a rank that is
  /// in no lane. For `first_stream` see `Pipelines`.
  Lane(const topology::Topology& topology, const shm::NodeMemory::Layout& layout,
       const mpi::Communicator* communicator, int first_stream);

  /// The exchange of a chunk, by the chunk's number.
  Exchange& exchange(std::uint64_t chunk) const { return *exchanges_[chunk % exchanges_.size()]; }
  std::uint64_t bytes_sent() const;
  std::size_t buffer_bytes() const;

 private:
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

}  // namespace tutti::collective
