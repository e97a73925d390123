#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/chunks.h"
#include "collective/copy_stage.h"
#include "collective/ends.h"
#include "collective/mover.h"
#include "collective/node_broadcast.h"
#include "collective/tuning.h"
#include "observe/timeline.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Broadcast of one batch, in chunks. On each node one rank, the carrier, puts the chunks into
/// shared memory, and the others copy them out. On the root's node the carrier is the root. On
/// another node it is the leader, which receives the chunks from another node.
///
/// On one node, a root whose tensor lies in its arena copies nothing: the others read the tensor
/// there. One thread at a time drives it. Nothing blocks.
class Broadcast final : public Mover {
 public:
  /// The references outlive this object. `communicator` is null on one node. Only this broadcast
  /// uses the streams of it from `first_stream` on, one for each slot.
  Broadcast(const topology::Topology& topology, const shm::NodeMemory& memory,
            mpi::Communicator* communicator, const Tuning& tuning, int first_stream);

  /// Records the stages in the timeline from now on. The timeline outlives this object.
  void record_in(observe::Timeline& timeline) { recorder_ = observe::StageRecorder(timeline); }

  /// Starts on a batch, which is not empty and keeps its address until it is done. `sequence` finds
  /// its descriptors. `before` counts the chunks of all batches before it.
  void start(const Batch& batch, std::uint64_t sequence, std::uint64_t before);
  Progress step() override;
  /// No batch is before this one, so there is nothing to drive ahead.
  bool drive_device() override { return false; }
  /// The number of the chunk after the batch's last one.
  std::uint64_t end() const { return chunks_.end(); }
  bool is_issued() const override { return out_.begun.chunk == chunks_.size(); }
  bool is_polling() const override {
    return (several_nodes() && is_carrier() && out_.over() < chunks_.size()) || is_copying();
  }
  bool is_copying() const override { return brought_.is_under_way() || out_.is_under_way(); }
  std::uint64_t bytes_sent() const;
  std::string describe() const override;

 private:
  auto is_over(Ends::Side side) const {
    return [this, side](CopyStage::Mark mark) { return ends_->is_over(side, mark); };
  }
  bool several_nodes() const { return topology_.node_count() > 1; }
  bool is_root() const { return batch_->root == topology_.rank; }
  bool is_carrier() const { return carrier_ == topology_.local_index(); }
  NodeBroadcast& node_broadcast(std::uint64_t chunk) const;
  std::byte* staging(std::uint64_t chunk) const;
  void start_node_broadcast(std::uint64_t chunk);

  bool bring_some();
  bool pass_on_brought();
  bool show_next();
  bool copy_out_some();
  bool raise_copied_out();
  bool poll_copy_out() const;
  topology::Range next_copies(std::size_t done, std::size_t end) const;
  void copy_out_stretch(topology::Range range, const std::byte* staged);
  /// The root's tensor, if this rank reads it where it lies, because it is the root or the tensor
  /// is in the root's arena.
  const std::byte* source(const PartRange& part_range) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const std::size_t cache_bytes_;
  std::vector<std::unique_ptr<NodeBroadcast>> node_broadcasts_;  ///< one a slot; none on one node
  observe::StageRecorder recorder_;

  const Batch* batch_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::size_t width_ = 1;
  int carrier_ = 0;         ///< its local index
  bool shared_ = false;     ///< the node's ranks read the root's tensor where it lies
  bool streaming_ = false;  ///< outputs larger than the caches
  HostEnds host_;
  Ends* ends_ = nullptr;  ///< the batch's
  Chunks chunks_;
  CopyStage brought_;
  CopyStage out_;
  std::uint64_t shown_ = 0;  ///< chunks that the carrier has published to its node
};

}  // namespace tutti::collective
