#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/exchange.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// This rank's exchanges with its kin on the other nodes, one a slot of the pipeline. A chunk's is
/// free when its slot is. One thread at a time drives it.
class Lane {
 public:
  /// No exchanges on one node (`communicator` is null), nor on a rank that is in no lane.
  Lane(const topology::Topology& topology, const shm::NodeMemory::Layout& layout,
       const mpi::Communicator* communicator);

  /// By the chunk's number.
  Exchange& exchange(std::uint64_t chunk) const { return *exchanges_[chunk % exchanges_.size()]; }
  std::uint64_t bytes_sent() const;
  std::size_t buffer_bytes() const;

 private:
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

}  // namespace tutti::collective
