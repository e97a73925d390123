#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "collective/device_queue.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/nccl_comm.h"
#include "reduce/reduce.h"
#include "shm/launch_log.h"

namespace tutti::collective {

/// Reaches the other ranks of the node, each of which has a GPU of its own, by launches of their
/// NCCL communicator. The launches move pieces of chunks between the GPUs. Ranks count by their
/// local indexes. Besides the communicator it has the queues through which a chunk passes on this
/// rank, and memory on the GPU for each slot.
///
/// One thread at a time calls these functions, with the GPU's context current. Only `drain` blocks.
/// They throw `internal` if CUDA or NCCL reports an error.
class DeviceGroup {
 public:
  struct Send {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    int to = 0;
  };
  struct Receive {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    int from = 0;
  };
  /// Equal on all ranks of the node. Slots and chunks are those of the staging memory.
  struct Layout {
    int ranks = 1;  ///< of the node
    int lanes = 1;
    std::size_t slots = 0;
    std::size_t slot_bytes = 0;  ///< the bytes of a chunk
  };

  /// The ranks of the communicator are the node's, by their local indexes. The communicator and the
  /// GPU outlive the group. Any thread may call this.
  DeviceGroup(const cuda::Gpu& gpu, cuda::NcclComm& communicator, const Layout& layout,
              shm::LaunchLog log);

  /// Makes one launch, as the other ranks of the node do, too. The pieces that this rank sends to
  /// another one are, in order, those that the other one receives from it. Runs in `launches()`.
  void launch(std::span<const Send> sends, std::span<const Receive> receives);
  /// Reduces in `sums()`; see `cuda::Kernels`.
  void reduce(const reduce::Kernel& kernel, std::span<const void* const> sources, void* to,
              std::size_t count) const;
  /// The memory for the slice of one rank of the node, in the slot of a chunk.
  std::byte* place(std::uint64_t chunk, int local) const;

  DeviceQueue& launches() { return launches_; }  ///< of NCCL
  DeviceQueue& sums() { return sums_; }
  DeviceQueue& down() { return down_; }  ///< copies to the host
  DeviceQueue& up() { return up_; }      ///< copies from the host
  /// The queue of the copies to outputs. When one of its marks is over, these outputs are complete.
  DeviceQueue& outputs() { return outputs_; }

  /// The number of chunks that have passed a launch on this rank, among those that move by
  /// launches. Batches follow each other by these counts, even if other batches move between them.
  struct Passed {
    std::uint64_t started = 0;  ///< chunks of the batches that were started
    std::uint64_t scatters = 0;
    std::uint64_t gathers = 0;
  };
  Passed& passed() { return passed_; }
  /// The order of the launches.
  shm::LaunchLog& log() { return log_; }

  /// The error that struck the node's launches, if there is one.
  std::optional<std::string> async_error() const { return communicator_.async_error(); }
  /// Blocks until the GPU does nothing for the group, or until the deadline. Returns true if it
  /// does nothing.
  bool drain(base::Clock::time_point deadline);

 private:
  cuda::NcclComm& communicator_;
  const cuda::Kernels kernels_;
  cuda::EventPool events_;
  DeviceQueue launches_;
  DeviceQueue sums_;
  DeviceQueue down_;
  DeviceQueue up_;
  DeviceQueue outputs_;
  const std::size_t slots_;
  const std::size_t ranks_;
  const std::size_t place_bytes_;
  const cuda::DeviceMemory memory_;
  Passed passed_;
  shm::LaunchLog log_;
};

}  // namespace tutti::collective
