#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/completion.h"
#include "base/doorbell.h"
#include "base/fd.h"
#include "base/mapping.h"
#include "base/mutex.h"
#include "collective/ends.h"
#include "collective/grouping.h"
#include "collective/tuning.h"
#include "runtime/call_list.h"
#include "runtime/opened_gpu.h"
#include "shm/node_memory.h"

namespace tutti::runtime {

/// A session's means for tensors on a GPU. Until the first such tensor comes, it has only an empty
/// file: it loads no driver, creates no context and pins no memory. The first such tensor decides
/// which device the session uses. Then this creates the rest, once.
class DeviceSide final : public collective::Grouping {
 public:
  /// The node's staging memory for tensors on a GPU, and the ranks that share it.
  struct Staging {
    base::Fd file;  ///< of `bytes(layout)`; no page of it is reserved yet
    shm::NodeMemory::Layout layout;
    int local_index = 0;
    std::vector<base::Doorbell*> doorbells;  ///< by local index
    base::Mapper map = base::map_file;
    OpenedGpu::Node node;

    /// The board of the node's group lies behind the staging memory.
    static std::size_t bytes(const shm::NodeMemory::Layout& layout);
  };

  /// `gpu` is the device that the session is to use. If there is none, the first tensor decides.
  DeviceSide(Staging staging, const collective::Tuning& tuning, std::optional<int> gpu);
  ~DeviceSide() override { close(); }

  /// Whether one of the calls has tensors on a GPU.
  static bool concerns(std::span<const TensorCall> calls);
  /// A user's thread calls this before it submits calls with tensors on a GPU. It checks the memory
  /// of these tensors, and records the events for which the copies will wait. Returns the object
  /// that makes streams wait for the calls. Throws:
  /// - `unsupported` without CUDA or a driver;
  /// - `invalid_argument` for memory of another device or context, and for a stream that the
  ///   program captures as a graph;
  /// - `aborted` after `close`.
  ///
  /// Thread-safe.
  std::shared_ptr<const base::StreamOrder> admit(std::span<TensorCall> calls)
      TUTTI_EXCLUDES(opening_);

  /// Call this when no batch is under way any more. It waits a moment for copies that a failure has
  /// left under way, and frees everything. A second call does nothing. Any thread may call it.
  void close() TUTTI_EXCLUDES(opening_);

  /// The staging memory and the ends for the next batch. Only the thread that moves the executor
  /// calls these. A rank that has joined may never have had a GPU, so the first call reserves and
  /// maps the memory, unless `admit` has. Throws `internal` if there is no room.
  const shm::NodeMemory& memory() TUTTI_EXCLUDES(opening_);
  collective::Ends& ends();
  /// The communication thread calls this each time before it moves such batches. It makes the
  /// context current, and lets the thread poll while the program captures a graph. A callback of
  /// the program may have changed both meanwhile.
  void adopt_thread();
  void enter(std::uint64_t sequence) override;
  collective::DeviceGroup* find(std::uint64_t sequence) override;
  /// Throws `internal` if an error has struck the launches of the node's group.
  void check_group() const;
  /// Blocks until the GPU makes no copy, or until the deadline. Returns true if it makes none.
  /// Aborts the node's group if the session has `failed`, or if the group's launches do not end.
  bool drain(base::Clock::time_point deadline, bool failed);
  /// This rank's share of the reserved staging memory; 0 until memory is reserved. Any thread may
  /// call it.
  std::size_t buffer_bytes() const;

 private:
  std::shared_ptr<OpenedGpu> opened_for(const TensorCall& call) TUTTI_EXCLUDES(opening_);
  void open_memory() TUTTI_REQUIRES(opening_);

  Staging staging_;
  const std::optional<int> gpu_;
  base::Mutex opening_{5};
  std::shared_ptr<base::Mapping> mapping_ TUTTI_GUARDED_BY(opening_);
  std::unique_ptr<shm::NodeMemory> memory_ TUTTI_GUARDED_BY(opening_);
  std::shared_ptr<OpenedGpu> owned_ TUTTI_GUARDED_BY(opening_);
  std::atomic<OpenedGpu*> opened_{nullptr};
  std::atomic<std::size_t> reserved_bytes_{0};
  collective::HostEnds without_gpu_;
  bool closed_ TUTTI_GUARDED_BY(opening_) = false;
};

}  // namespace tutti::runtime
