#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "collective/leader_gate.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Arrival of all ranks at a batch: one word a rank in the node's memory and, with several nodes,
/// the leaders' exchange, whose end each leader shows to its node.
///
/// A rank stands at one gate at a time, but several may be closed and not yet used. A gate is
/// closed for its exact epoch alone; whoever is further ahead in that epoch has passed it.
/// The communication thread owns it; nothing blocks.
class Gate {
 public:
  /// `communicator` is null on one node, else this gate's alone.
  Gate(const topology::Topology& topology, const shm::NodeMemory& memory,
       mpi::Communicator* communicator);

  void arrive(std::uint32_t epoch, std::uint64_t number);
  /// Whether everybody has arrived at this gate, where this rank has.
  bool closed(std::uint32_t epoch, std::uint64_t number);
  /// This gate will not close, or the coordinator closed it.
  void forget(std::uint32_t epoch, std::uint64_t number);
  /// An exchange between leaders is under way, which rings no bell.
  bool polling() const { return leader_gate_ && standing_at_; }
  /// Empty when this rank stands at no gate.
  std::string describe() const;

 private:
  bool node_arrived(std::uint64_t word) const;
  bool nodes_arrived(std::uint32_t epoch, std::uint64_t number);
  bool several_nodes() const { return topology_.node_count() > 1; }

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  std::optional<LeaderGate> leader_gate_;  ///< on leaders of several nodes
  std::uint64_t standing_at_ = 0;          ///< the word of the open gate, 0: none
  bool node_has_arrived_ = false;          ///< and the other leaders have been told
};

}  // namespace tutti::collective
