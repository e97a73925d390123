#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective/leader_gate.h"
#include "collective/small.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Arrival of all ranks at a batch: one word a rank in the node's memory and, with several nodes,
/// the leaders' exchange, whose end each leader shows to its node. Between nodes a gate may carry
/// its batch's data, if that is small.
///
/// A rank stands at one gate at a time, but several may be closed and not yet used. A gate is
/// closed for its exact epoch alone; whoever is further ahead in that epoch has passed it.
/// One thread at a time drives it; nothing blocks.
class Gate {
 public:
  /// What a gate carries: the batch that is the `sequence`-th of the session. None: nothing.
  struct Payload {
    const Batch* batch = nullptr;
    std::uint64_t sequence = 0;
  };

  /// `communicator` is null on one node, else this gate's alone. The other references outlive it.
  Gate(const topology::Topology& topology, const shm::NodeMemory& memory,
       mpi::Communicator* communicator, Small& small);

  /// The payload's batch stays until it is delivered, or the gate withdrawn.
  void arrive(std::uint32_t epoch, std::uint64_t number, Payload payload);
  /// Whether everybody has arrived at this gate, where this rank has.
  bool poll_closed(std::uint32_t epoch, std::uint64_t number);
  /// This gate will not close: forgets it and its payload.
  void withdraw(std::uint32_t epoch, std::uint64_t number);
  /// The coordinator says that all have arrived at this gate, if it has not closed by itself.
  void close(std::uint32_t epoch, std::uint64_t number);
  /// Whether what the closed gate of this batch carried is here. True where gates carry nothing.
  bool poll_delivered(std::uint64_t sequence);
  /// An exchange between leaders is under way, which rings no bell.
  bool is_polling() const { return leader_gate_ && ((open_ && open_->told) || !owed_.empty()); }
  /// Whether the last look at an open gate brought it on, though it did not close.
  bool has_moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, closed ones, too.
  bool is_sending() const { return leader_gate_ && leader_gate_->is_sending(); }
  std::uint64_t bytes_sent() const { return leader_gate_ ? leader_gate_->bytes_sent() : 0; }
  std::size_t buffer_bytes() const { return leader_gate_ ? leader_gate_->buffer_bytes() : 0; }
  /// Empty when this rank stands at no gate.
  std::string describe() const;

 private:
  /// A gate that this rank stands at, or one that is closed and still owes its payload.
  struct Passage {
    std::uint32_t epoch = 0;
    std::uint64_t number = 0;
    Payload payload;
    bool told = false;  ///< the other leaders know that this node has arrived
  };

  bool is_at(std::uint32_t epoch, std::uint64_t number) const;
  bool has_node_arrived(std::uint64_t word) const;
  bool drive(Passage& passage);
  bool deliver_owed();
  bool several_nodes() const { return topology_.node_count() > 1; }

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  Small& small_;
  std::optional<LeaderGate> leader_gate_;  ///< on leaders of several nodes
  std::optional<Passage> open_;
  bool moved_ = false;
  /// On leaders, in order: closed by the coordinator before their payload was here. All will pass
  /// it on, for all have arrived.
  std::vector<Passage> owed_;
};

}  // namespace tutti::collective
