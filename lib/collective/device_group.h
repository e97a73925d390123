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

/// The ranks of a node, each with a GPU of its own, as one of them reaches the others: by launches
/// of their NCCL communicator, which move pieces of chunks between the GPUs. Ranks count by their
/// local indexes. Beside the communicator it has the queues through which a chunk passes on this
/// rank, and for each slot memory on the GPU.
///
/// One thread at a time calls these, with the GPU's context current; nothing blocks but
/// `drain`. All throw `internal` for what CUDA and NCCL report.
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
  /// Equal on the node's ranks. Slots and chunks are those of the staging memory.
  struct Layout {
    int ranks = 1;  ///< of the node
    int lanes = 1;
    std::size_t slots = 0;
    std::size_t slot_bytes = 0;  ///< of a chunk
  };

  /// The communicator's ranks are the node's, by their local indexes. It and the GPU outlive the
  /// group. Any thread.
  DeviceGroup(const cuda::Gpu& gpu, cuda::NcclComm& communicator, const Layout& layout,
              shm::LaunchLog log);

  /// One launch on the node's ranks: the pieces that go to a rank, in order, are those that it
  /// receives from this one. Runs in `launches()`.
  void launch(std::span<const Send> sends, std::span<const Receive> receives);
  /// Runs in `sums()`; see `cuda::Kernels`.
  void reduce(const reduce::Kernel& kernel, std::span<const void* const> sources, void* to,
              std::size_t count) const;
  /// Memory of a chunk's slot for the slice of one rank of the node.
  std::byte* place(std::uint64_t chunk, int local) const;

  DeviceQueue& launches() { return launches_; }  ///< of NCCL
  DeviceQueue& sums() { return sums_; }
  DeviceQueue& down() { return down_; }  ///< copies to the host
  DeviceQueue& up() { return up_; }      ///< copies from the host
  /// Copies to outputs. Behind its marks the outputs are complete.
  DeviceQueue& outputs() { return outputs_; }

  /// How many chunks have passed a launch on this rank, among those that move by launches. Batches
  /// follow each other by these counts, whatever else moves between them.
  struct Passed {
    std::uint64_t started = 0;  ///< chunks of the batches that were started
    std::uint64_t scatters = 0;
    std::uint64_t gathers = 0;
  };
  Passed& passed() { return passed_; }
  /// The order of the launches.
  shm::LaunchLog& log() { return log_; }

  /// The error that struck the node's launches, if any.
  std::optional<std::string> async_error() const { return communicator_.async_error(); }
  /// Blocks until the GPU does nothing for the group, or until the deadline. True: it does nothing.
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
