#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "collective/allreduce.h"
#include "collective/batch.h"
#include "collective/broadcast.h"
#include "collective/gate.h"
#include "collective/small.h"
#include "collective/tuning.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Gates and data of one session on this rank. The communication thread owns it; nothing blocks.
///
/// Ranks pass the same batches in the same order. Where a batch's tensors lie is told at its gate
/// and read behind it, so that all ranks of a node choose the same way for it. No user memory is
/// written, nor read by others, nor sent before the gate has closed.
class Engine {
 public:
  /// The references outlive it. The communicators, each this engine's alone, are null on one node.
  Engine(const topology::Topology& topology, const shm::NodeMemory& memory, mpi::Communicator* data,
         mpi::Communicator* gate, const Tuning& tuning);

  /// Arrives at the batch's gate, and shows the node what it needs to know behind it. At most
  /// `shm::most_ahead` gates beyond the batches started.
  void enter(const Batch& batch);
  /// Whether every rank has arrived at this gate, which this rank has entered.
  bool closed(std::uint32_t epoch, std::uint64_t number) { return gate_.closed(epoch, number); }
  /// The gate entered last will not close: as if it had never been entered.
  void withdraw(std::uint32_t epoch, std::uint64_t number);
  /// Its gate has closed, or the coordinator says that all have entered it. Its data moves with
  /// each `step`; it stays until then. One batch at a time, in the order of entry.
  void start(const Batch& batch);
  /// A bounded piece of work on the started batch, some tens of microseconds.
  Progress step();
  /// Whether the batch's data moves in one step that takes no longer than to copy it.
  bool brief(const Batch& batch) const {
    const Way way = way_of(batch);
    return way == Way::nothing || way == Way::small;
  }
  /// MPI transfers are under way, which ring no bell.
  bool polling() const;
  /// Sent by this rank.
  std::uint64_t bytes_between_nodes() const {
    return allreduce_.bytes_sent() + broadcast_.bytes_sent();
  }
  /// Held by this rank, without its share of the node's memory.
  std::size_t buffer_bytes() const { return allreduce_.buffer_bytes() + small_.buffer_bytes(); }
  /// The most that can be with nodes as large as this rank's: what `create` takes on one node; on
  /// several, what arrives and what travels in a wire format.
  static std::size_t most_buffer_bytes(const topology::Topology& topology, const Tuning& tuning);
  /// What moves, what is waited for, and which ranks keep it.
  std::string describe() const;

 private:
  enum class Way : std::uint8_t { nothing, small, allreduce, broadcast };

  Way way_of(const Batch& batch) const;
  void tell_places(const Batch& batch, shm::Descriptor& descriptor) const;
  Progress move();

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  Gate gate_;
  Small small_;
  Allreduce allreduce_;
  Broadcast broadcast_;

  std::uint64_t started_ = 0;  ///< batches: equal on all ranks that stand at the same gate
  std::uint64_t ahead_ = 0;    ///< gates entered beyond them
  std::uint64_t chunks_ = 0;   ///< of all batches done
  const Batch* batch_ = nullptr;
  Way way_ = Way::nothing;
};

}  // namespace tutti::collective
