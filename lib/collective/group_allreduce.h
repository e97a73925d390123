#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/chunk_layout.h"
#include "collective/chunks.h"
#include "collective/copy_stage.h"
#include "collective/device_group.h"
#include "collective/lane.h"
#include "collective/mover.h"
#include "collective/route.h"
#include "observe/timeline.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Allreduce of one batch of tensors on GPUs, one for each rank of the node, by launches of NCCL.
/// It is a pipeline: different chunks are in different stages at once.
///
/// 1. Scatter, one launch: every rank sends each lane its slice of the chunk.
/// 2. Sum: each lane's GPU sums its slice over all ranks of the node, in the canonical tree.
/// 3. Exchange, with several nodes: the slice is copied down to the lane's result slot, exchanged
/// with the lane's kin, and copied up.
/// 4. Gather, one launch: every lane sends its slice to all ranks, straight to their outputs.
///
/// All ranks of the node make a launch in the same order, and a launch occupies each GPU until the
/// last rank has made it. So the node's first rank appends a launch to the log (`shm::LaunchLog`)
/// once all ranks are ready for it. They tell that by `shm::RankBlock::prepared` for the scatter,
/// and by `reduced` for the gather. The others make the launch as soon as they see it in the log.
/// No launch waits for anything else, so none hangs unless a rank or a GPU does.
///
/// Its chunks have numbers and raise flags like those of `Allreduce`, so that batches of either
/// follow each other in one staging memory. The next batch may start in another GroupAllreduce
/// while the last chunks of this one are under way. One thread at a time drives it. Nothing blocks.
class GroupAllreduce final : public Mover {
 public:
  /// The references outlive this object.
  GroupAllreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
                 const Lane& lane, const Site& site);

  /// Records the stages in the timeline from now on. The timeline outlives this object.
  void record_in(observe::Timeline& timeline) { recorder_ = observe::StageRecorder(timeline); }

  /// Starts on an allreduce that all ranks of the node move by their group. Batch and group keep
  /// their addresses until it is done. `before` counts the chunks of all batches before it.
  void start(const Batch& batch, DeviceGroup& group, std::uint64_t before);
  /// The number of the chunk after the batch's last one.
  std::uint64_t end() const { return chunks().end(); }

  Progress step() override;
  bool drive_device() override;
  bool is_issued() const override { return gather_.begun.chunk == chunks().size(); }
  bool is_polling() const override {
    return (exchanges() && exchanged_ < sum_.over()) || is_copying();
  }
  bool is_copying() const override;
  std::string describe() const override;

 private:
  const Chunks& chunks() const { return layout_.chunks(); }
  /// The chunk's number among the chunks that move by launches.
  std::uint64_t ordinal(std::uint64_t chunk) const { return first_ + chunk; }
  topology::Range slice(std::uint64_t chunk, int local) const;
  topology::Range own_slice(std::uint64_t chunk) const {
    return slice(chunk, memory_.local_index());
  }
  bool exchanges() const { return site_.several_nodes() && site_.in_a_lane; }
  Exchange& exchange(std::uint64_t chunk) const { return lane_.exchange(chunks().number(chunk)); }
  std::byte* result(std::uint64_t chunk) const;
  std::byte* place(std::uint64_t chunk, int local) const;
  /// Whether all earlier batches have passed, on this rank, the stage that raises this flag.
  bool is_next(Route::Flag flag) const {
    return (memory_.mine().*flag).load() >= chunks().number(0);
  }

  bool prepare_some();
  bool is_input_complete(std::uint64_t chunk);
  bool launch_some();
  bool launch_first();
  bool may_scatter() const;
  bool may_gather() const;
  void launch(const shm::LaunchLog::Launch& launch);
  void scatter();
  void sum(std::uint64_t chunk);
  void copy_down(std::uint64_t chunk);
  bool exchange_some();
  void start_exchange();
  void copy_up();
  bool raise_reduced();
  void gather();
  void copy_own_slice(std::uint64_t chunk);
  void copy_further_outputs(std::uint64_t chunk);
  bool raise(CopyStage& stage, DeviceQueue& queue, Route::Flag flag, observe::Stage recorded);
  template <typename Visit>
  void for_each_peer(const Visit& visit) const;
  template <typename Visit>
  void for_each_piece(std::uint64_t chunk, topology::Range slice, const Visit& visit) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const Site& site_;
  const Lane& lane_;
  observe::StageRecorder recorder_;

  const Batch* batch_ = nullptr;
  DeviceGroup* group_ = nullptr;
  std::size_t width_ = 1;
  ChunkLayout layout_;
  std::uint64_t first_ = 0;  ///< the first chunk's ordinal
  std::uint64_t prepared_ = 0;
  const cuda::Event* complete_ = nullptr;  ///< the input's event that was found done last
  bool awaits_input_ = false;
  CopyStage scatter_;
  CopyStage sum_;                ///< with an exchange, a chunk is over when its sum is on the host
  std::uint64_t exchanged_ = 0;  ///< with an exchange, they are also on their way up
  CopyStage up_;
  CopyStage gather_;
  std::vector<DeviceGroup::Send> sends_;
  std::vector<DeviceGroup::Receive> receives_;
  std::vector<const void*> sources_;
};

}  // namespace tutti::collective
