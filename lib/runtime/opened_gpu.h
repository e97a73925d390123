#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/completion.h"
#include "base/mapping.h"
#include "base/mutex.h"
#include "collective/device_ends.h"
#include "collective/device_group.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "runtime/call_list.h"
#include "runtime/node_group.h"
#include "shm/group_board.h"
#include "shm/node_memory.h"

namespace tutti::runtime {

/// The GPU of a session and what tutti keeps there: streams, events, ends, and perhaps the group of
/// the node's GPUs. Calls keep this object until they are gone, which may be after the session has
/// ended.
class OpenedGpu final : public base::StreamOrder {
 public:
  /// The facts from which the ranks of a node make their group.
  struct Node {
    std::vector<int> ranks;  ///< by local index: for messages
    int lanes = 1;
    std::chrono::milliseconds limit{};  ///< see `NodeGroup::Settings`
  };

  /// `mapping` holds the node's staging memory and the board of its group. A group is tried if the
  /// node has several ranks and no other store of this process has a group then.
  OpenedGpu(std::unique_ptr<cuda::Gpu> gpu, std::shared_ptr<base::Mapping> mapping,
            const shm::NodeMemory& memory, const shm::GroupBoard& board, const Node& node);
  ~OpenedGpu() override;

  const cuda::Gpu& gpu() const { return *gpu_; }

  // The program's threads call this, several at the same time. Throws `invalid_argument` if the
  // tensor's memory is not on this GPU.
  void check(const TensorCall& call, const Tensor& tensor) const;
  /// An event behind all work that the call's streams hold now. Null if the call names no stream.
  /// Throws `invalid_argument` if the program captures one of the streams as a graph.
  std::shared_ptr<const cuda::Event> record(const TensorCall& call) TUTTI_EXCLUDES(joining_);
  void check(DeviceStream stream) const override;
  void hold_back(DeviceStream stream) const override TUTTI_EXCLUDES(using_);

  // Only for the thread that moves the executor.
  collective::DeviceEnds& ends() { return ends_; }
  /// See `collective::Grouping`.
  void enter(std::uint64_t sequence);
  collective::DeviceGroup* find_group(std::uint64_t sequence) TUTTI_EXCLUDES(using_);
  /// Throws `internal` if an error has struck the group's launches.
  void check_group() const TUTTI_EXCLUDES(using_);
  /// Blocks until the GPU does nothing more for the session, or until the deadline. Returns true if
  /// it does nothing. Aborts the group if the session has `failed`, or if the group's launches do
  /// not end.
  bool drain(base::Clock::time_point deadline, bool failed) TUTTI_EXCLUDES(using_);
  /// Ends the group. Call this when nothing is under way any more. Blocks for `limit` at most. Any
  /// thread may call it.
  void close_group(std::chrono::milliseconds limit) TUTTI_EXCLUDES(using_);

 private:
  collective::DeviceGroup* group() const TUTTI_EXCLUDES(using_);
  void abort_group(base::Clock::time_point deadline);
  bool claim_group();

  const std::shared_ptr<base::Mapping> mapping_;
  const std::shared_ptr<const cuda::Gpu> gpu_;
  const cuda::Registration pinned_inputs_;
  const cuda::Registration pinned_results_;
  mutable cuda::EventPool events_;
  cuda::Stream meeting_;  ///< brings several of the program's streams together
  base::Mutex joining_{5};
  collective::DeviceEnds ends_;
  bool has_claim_ = false;                 ///< no other store of this process may have a group
  std::unique_ptr<NodeGroup> node_group_;  ///< null: this store has none, and never will
  mutable base::Mutex using_{5};
  collective::DeviceGroup* group_ TUTTI_GUARDED_BY(using_) = nullptr;  ///< once batches move by it
};

}  // namespace tutti::runtime
