#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collective/batch.h"
#include "collective/chunk_layout.h"
#include "collective/chunks.h"
#include "collective/copy_stage.h"
#include "collective/ends.h"
#include "collective/lane.h"
#include "collective/mover.h"
#include "collective/route.h"
#include "collective/tuning.h"
#include "observe/timeline.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Allreduce of one batch, or one of its halves, as a pipeline: different chunks are in different
/// stages at once.
///
/// 1. Copy in: this rank copies its input into its staging buffer, so that others can sum it.
/// 2. Sum: each lane sums its slice of the chunk over all ranks of the node, in one pass, in the
/// canonical tree.
/// 3. Exchange, with several nodes: each lane exchanges its slice with its kin.
/// 4. Copy out: each rank copies the whole chunk out of all lanes' results.
///
/// A reduce_scatter does the first half of the exchange, and copies out only this rank's column. On
/// one node that column is the rank's slice, which it sums straight into the output. An allgather
/// sums nothing: copy in puts this rank's column at the place of the sum, the lanes do the second
/// half of the exchange, and copy out takes the whole chunk.
///
/// If all tensors of the node's ranks lie in arenas, nothing is staged: each lane reads its slice
/// from all inputs, and writes the sum to all outputs. For the halves it is enough that the inputs
/// lie there. An allgather on one node then copies out straight from the inputs. Only the owner of
/// a slice reads or writes it, so outputs may be inputs.
///
/// The next batch may start in another Allreduce while the last chunks of this one are under way.
/// Each stage of the next batch starts once this batch has passed that stage on this rank. One
/// thread at a time drives it. Nothing blocks.
class Allreduce final : public Mover {
 public:
  /// The references outlive this object.
  Allreduce(const topology::Topology& topology, const shm::NodeMemory& memory, const Lane& lane,
            const Site& site, const Tuning& tuning);

  /// Records the stages in the timeline from now on. The timeline outlives this object.
  void record_in(observe::Timeline& timeline) { recorder_ = observe::StageRecorder(timeline); }

  /// Starts on a batch whose way is the pipeline. The batch keeps its address until it is done.
  /// `sequence` finds its descriptors. `before` counts the chunks of all batches before it.
  void start(const Batch& batch, std::uint64_t sequence, std::uint64_t before);
  Progress step() override;
  /// Only for batches with ends of their own.
  bool drive_device() override;
  /// The number of the chunk after the batch's last one.
  std::uint64_t end() const { return chunks().end(); }
  bool is_issued() const override { return out_.begun.chunk == chunks().size(); }
  bool is_polling() const override {
    return (route_.exchange != Route::Exchange::none && exchanged_ < chunks().size()) ||
           is_copying();
  }
  bool is_copying() const override { return in_.is_under_way() || out_.is_under_way(); }
  std::string describe() const override;

 private:
  auto is_over(Ends::Side side) const {
    return [this, side](CopyStage::Mark mark) { return ends_->is_over(side, mark); };
  }
  const Chunks& chunks() const { return layout_.chunks(); }
  /// The part of a chunk that this rank sums, in elements of the chunk.
  topology::Range slice(std::uint64_t chunk) const;
  Exchange& exchange(std::uint64_t chunk) const { return lane_.exchange(chunks().number(chunk)); }
  std::byte* result(std::uint64_t chunk, std::size_t element) const;
  reduce::Kernel kernel_in_node() const;
  Progress end_of_step(bool moved) const;
  std::string late(Route::Flag flag, std::uint64_t chunk, std::string_view what) const;
  std::string without_room() const;

  void leave_out_stages();
  void leave_out(Route::Flag flag);
  bool pass_left_out();
  /// Whether all earlier batches have passed, on this rank, the stage that raises this flag.
  bool is_next(Route::Flag flag) const {
    return (memory_.mine().*flag).load() >= chunks().number(0);
  }

  bool copy_in_some();
  /// The elements of a chunk that copy in takes, and among them those that it skips.
  struct Wanted {
    topology::Range all;
    topology::Range skipped;
  };
  Wanted wanted_in(std::uint64_t chunk) const;
  std::byte* copy_in_target(std::uint64_t chunk, std::size_t element) const;
  void copy_in_stretch(std::uint64_t chunk, topology::Range stretch, std::byte* to);
  bool raise_brought();
  bool sum_some();
  bool may_sum() const;
  void sum_staged(topology::Range stretch);
  void sum_in_place(topology::Range stretch);
  void sum_sources(std::size_t at, topology::Range range);
  void finish_slice();
  void start_exchange();
  bool exchange_some();
  void deliver(std::uint64_t chunk);
  /// The place of these elements in the output of a rank. All outputs are in arenas.
  std::byte* output(int local, const PartRange& part_range) const;
  void sum_everywhere(const PartRange& part_range);
  void write_everywhere(topology::Range range, const std::byte* from);
  void raise_reduced();
  bool copy_out_some();
  bool raise_copied_out();
  topology::Range wanted_out(std::uint64_t chunk) const;
  const std::byte* source(const ChunkLayout::ChunkRange& range) const;
  topology::Range next_copies(std::size_t done, std::size_t end) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const Site& site_;
  const Lane& lane_;
  observe::StageRecorder recorder_;

  const Batch* batch_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::size_t width_ = 1;
  Route route_;
  HostEnds host_;
  Ends* ends_ = nullptr;  ///< the batch's
  ChunkLayout layout_;
  CopyStage in_;
  Cursor sum_;
  CopyStage out_;
  std::uint64_t exchanged_ = 0;
  std::vector<Route::Flag> left_out_;  ///< flags to raise when their turn comes
  std::vector<const void*> sources_;
  std::vector<void*> outputs_;
  std::vector<Ends::PieceIn> pieces_in_;
  std::vector<Ends::PieceOut> pieces_out_;
};

}  // namespace tutti::collective
