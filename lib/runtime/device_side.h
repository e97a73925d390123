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
#include "collective/device_ends.h"
#include "collective/ends.h"
#include "collective/tuning.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/memory.h"
#include "runtime/call_list.h"
#include "shm/node_memory.h"

namespace tutti::runtime {

/// What a session has for tensors on a GPU. Before the first of them comes it has an empty file
/// alone: it loads no driver, makes no context and pins nothing. The first one decides which device
/// the session uses, and makes the rest, once.
class DeviceSide {
 public:
  /// The node's staging memory for such tensors, and who shares it.
  struct Staging {
    base::Fd file;  ///< of `layout.bytes()`; no page of it is reserved yet
    shm::NodeMemory::Layout layout;
    int local_index = 0;
    std::vector<base::Doorbell*> doorbells;  ///< by local index
    base::Mapper map = base::map_file;
  };

  /// `gpu`: the device that the session is to use; none: the first tensor decides.
  DeviceSide(Staging staging, const collective::Tuning& tuning, std::optional<int> gpu);
  ~DeviceSide() { close(); }
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  /// Whether one of the calls has tensors on a GPU.
  static bool concerns(std::span<const TensorCall> calls);
  /// For a user's thread, before it submits such calls: checks where the tensors of those on a GPU
  /// lie, and records the events that copies will wait for. Returns what makes streams wait for the
  /// calls. Throws `unsupported` without CUDA or a driver,
  /// `invalid_argument` for memory of another device or context, and for a stream that the program
  /// captures as a graph; `aborted` after `close`. Thread-safe.
  std::shared_ptr<const base::StreamOrder> admit(std::span<TensorCall> calls)
      TUTTI_EXCLUDES(opening_);

  /// No batch is under way any more. Waits a moment for copies that are, after a failure, and gives
  /// back everything. Again it does nothing. Any thread.
  void close() TUTTI_EXCLUDES(opening_);

  /// For the thread that moves the executor: staging memory and the ends of the next batch. A rank
  /// that has joined may never have had a GPU. The first call reserves and maps the memory, if
  /// `admit` has not. Throws `internal` if there is no room.
  const shm::NodeMemory& memory() TUTTI_EXCLUDES(opening_);
  collective::Ends& ends();
  /// For the communication thread, before it moves such batches: makes the context its own, and
  /// lets it poll while the program captures a graph. Each time, for a callback of the program's
  /// may have changed that.
  void adopt_thread();
  /// Blocks until the GPU makes no copy, or until the deadline. True: it makes none.
  bool drain(base::Clock::time_point deadline);
  /// This rank's share of the staging memory that was reserved; 0 before. Any thread.
  std::size_t buffer_bytes() const;

 private:
  /// All that there is once the device is known.
  struct Opened;

  std::shared_ptr<Opened> opened_for(const TensorCall& call) TUTTI_EXCLUDES(opening_);
  void open_memory() TUTTI_REQUIRES(opening_);

  Staging staging_;
  const std::optional<int> gpu_;
  base::Mutex opening_;  ///< level 5
  std::shared_ptr<base::Mapping> mapping_ TUTTI_GUARDED_BY(opening_);
  std::unique_ptr<shm::NodeMemory> memory_ TUTTI_GUARDED_BY(opening_);
  std::shared_ptr<Opened> owned_ TUTTI_GUARDED_BY(opening_);
  std::atomic<Opened*> opened_{nullptr};
  std::atomic<std::size_t> reserved_bytes_{0};
  collective::HostEnds without_gpu_;
  bool closed_ TUTTI_GUARDED_BY(opening_) = false;
};

}  // namespace tutti::runtime
