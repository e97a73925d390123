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

/// The barrier before each batch. Every rank writes the gate at which it stands into one word of
/// the node's memory. With several nodes the leaders also exchange messages, and each then tells
/// its node that the gate has closed. These messages may carry the batch's data, if it is small.
///
/// A rank stands at one gate at a time. Several gates may have closed whose batches have not
/// started. The epoch must match exactly; a rank that is further on in it has passed the gate. One
/// thread at a time drives it. Nothing blocks.
class Gate {
 public:
  /// The data that a gate carries: that of this batch, the `sequence`-th of the session. If `batch`
  /// is null, there is no data.
  struct Payload {
    const Batch* batch = nullptr;
    std::uint64_t sequence = 0;
  };

  /// `communicator` is null on one node. Only this gate uses it. The other references outlive the
  /// gate.
  Gate(const topology::Topology& topology, const shm::NodeMemory& memory,
       mpi::Communicator* communicator, Small& small);

  /// Arrives at a gate. The payload's batch keeps its address until it is delivered or the gate is
  /// withdrawn.
  void arrive(std::uint32_t epoch, std::uint64_t number, Payload payload);
  /// Drives the gate at which this rank stands. Returns true once all ranks have arrived.
  bool poll_closed(std::uint32_t epoch, std::uint64_t number);
  /// Forgets this gate and its payload, because the gate will not close.
  void withdraw(std::uint32_t epoch, std::uint64_t number);
  /// Notes that, as the coordinator says, all ranks have arrived at this gate. Does nothing if the
  /// gate has already closed.
  void close(std::uint32_t epoch, std::uint64_t number);
  /// Drives the data that closed gates carry. Returns true once this batch's payload is here, and
  /// always on one node.
  bool poll_delivered(std::uint64_t sequence);
  /// Whether this rank stands at a gate that it has not seen close.
  bool is_open() const { return open_.has_value(); }
  /// Whether all ranks of the node have come to the gate at which this rank stands.
  bool has_node_arrived() const;
  /// Whether an exchange between leaders is under way. It rings no bell.
  bool is_polling() const { return leader_gate_ && ((open_ && open_->told) || !owed_.empty()); }
  /// Whether the last `poll_closed` made progress, though the gate did not close.
  bool has_moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, even of closed ones.
  bool is_sending() const { return leader_gate_ && leader_gate_->is_sending(); }
  std::uint64_t bytes_sent() const { return leader_gate_ ? leader_gate_->bytes_sent() : 0; }
  std::size_t buffer_bytes() const { return leader_gate_ ? leader_gate_->buffer_bytes() : 0; }
  /// Describes the gate. Empty if this rank stands at none.
  std::string describe() const;

 private:
  /// A gate at which this rank stands, or one that is closed and whose payload is not here yet.
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
  /// On leaders, in order: the gates that the coordinator closed before their payload was here. All
  /// leaders have arrived at them, so all go on exchanging the payload.
  std::vector<Passage> owed_;
};

}  // namespace tutti::collective
