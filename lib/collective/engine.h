#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/gate.h"
#include "collective/grouping.h"
#include "collective/halves.h"
#include "collective/pipelines.h"
#include "collective/route.h"
#include "collective/small.h"
#include "collective/tuning.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Gates and data of one session on this rank. One thread at a time drives it. Nothing blocks.
///
/// All ranks pass the same batches in the same order. Before a batch's gate each rank publishes
/// where the batch's tensors lie. After the gate it reads where those of the others lie, so that
/// all ranks of a node choose the same way to move the batch. Before the gate closes, no rank
/// writes user memory, and none reads that of other ranks. Small batches are copied before the
/// gate, which may carry them. The copies have no effect unless the gate closes.
///
/// Batches with ends of their own move through a staging memory of their own.
class Engine {
 public:
  /// The references outlive the engine. Only this engine uses the communicators. They are null on
  /// one node.
  Engine(const topology::Topology& topology, const shm::NodeMemory& memory, mpi::Communicator* data,
         mpi::Communicator* gate, const Tuning& tuning);

  /// Records the stages in the timeline from now on. The timeline outlives the engine.
  void record_in(observe::Timeline& timeline);
  /// From now on batches with ends of their own may come. They move through this memory, or by a
  /// group if the grouping finds one. Memory and grouping outlive the engine. Each rank calls this
  /// for itself, but the layout is equal on all ranks. If `grouping` is null, there is never a
  /// group. Called once.
  void open_own_staging(const shm::NodeMemory& staging, Grouping* grouping = nullptr);

  /// Arrives at the batch's gate, and publishes what the node needs to know after it. Including
  /// this batch, at most `shm::most_open` are not done, and the gates of the others have closed.
  void enter(const Batch& batch);
  /// Drives the gate that this rank has entered. Returns true once every rank has arrived at it.
  bool poll_gate(std::uint32_t epoch, std::uint64_t number) {
    return gate_.poll_closed(epoch, number);
  }
  /// Whether the last `poll_gate` made progress, though the gate did not close.
  bool has_gate_moved() const { return gate_.has_moved(); }
  /// Whether MPI may still hold messages to be sent, though nothing is waited for here.
  bool is_sending() const { return gate_.is_sending(); }
  /// Notes that the gate that was entered last will not close. It is as if this rank had never
  /// entered it.
  void withdraw(std::uint32_t epoch, std::uint64_t number);
  /// Whether the next batch in the order of entry may start now. There must be one. On one node
  /// batches move one at a time, unless they have ends of their own. With such ends, and with
  /// several nodes, a batch may start beside one other allreduce when that is at its last chunks.
  /// It may also start beside small batches, so that links do not run empty.
  bool may_start() const;
  /// Starts the next batch in the order of entry: its gate has closed, or the coordinator says that
  /// all have entered it. Its data moves with each `step`. The batch keeps its address until it is
  /// done.
  void start();
  /// Looks for a moment whether the other ranks of the node let something move now: whether a gate
  /// closes, or a batch that moves by halves goes on. That costs less than another pass of the
  /// executor. If ranks share processors, it does not look.
  bool linger() const;
  /// Does a bounded piece of work on the started batches, some tens of microseconds. Returns `done`
  /// if the batch that was started first is done.
  Progress step();
  /// Whether all copies to the outputs of this started batch have begun on this rank. Only for
  /// batches with ends of their own.
  bool is_issued(const Batch& batch) const;
  /// Whether this batch, whose gate was entered, moves in few steps that take no longer than
  /// copying it.
  bool is_brief(const Batch& batch) const;
  /// Whether MPI transfers are under way. They ring no bell.
  bool is_polling() const;
  /// Whether copies in ends of their own have begun and are not over.
  bool is_copying() const;
  /// The bytes that this rank has sent between nodes.
  std::uint64_t bytes_between_nodes() const {
    return gate_.bytes_sent() + host_.bytes_sent() + (own_ ? own_->bytes_sent() : 0);
  }
  /// The bytes that this rank holds, without its share of the node's memory.
  std::size_t buffer_bytes() const;
  /// The most bytes that it can hold if all nodes are as large as this rank's.
  static std::size_t most_buffer_bytes(const topology::Topology& topology, const Tuning& tuning);
  /// Says which batches move, for what they wait, and which ranks hold them up.
  std::string describe() const;

 private:
  /// A batch whose gate this rank has entered, and that is not done here.
  struct OpenBatch {
    const Batch* batch = nullptr;
    Way way = Way::nothing;
    std::uint64_t sequence = 0;
    Pipelines* pipelines = nullptr;  ///< through whose memory it moves
    Mover* mover = nullptr;          ///< null before it starts, and if nothing is left to move
    bool over = false;               ///< done, but a batch before it is not
  };

  std::span<const OpenBatch> moving() const { return {open_.data(), moving_}; }
  Mover* start(OpenBatch& next);
  void tell_places(const Batch& batch, shm::Descriptor& descriptor) const;
  Progress move(const OpenBatch& moving);
  bool move_behind(OpenBatch& moving);

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const Site site_;
  Small small_;
  Gate gate_;
  mpi::Communicator* const data_;
  const Tuning tuning_;
  Pipelines host_;
  Halves halves_;
  std::unique_ptr<Pipelines> own_;  ///< for batches with ends of their own
  Grouping* grouping_ = nullptr;
  observe::Timeline* timeline_ = nullptr;

  std::uint64_t entered_ = 0;    ///< batches: equal on all ranks that stand at the same gate
  std::vector<OpenBatch> open_;  ///< in the order of entry; they are done in this order, too
  std::size_t moving_ = 0;       ///< the first of them, which were started
};

}  // namespace tutti::collective
