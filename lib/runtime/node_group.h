#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "cuda/gpu.h"
#include "cuda/nccl_comm.h"
#include "cuda/nccl_library.h"
#include "shm/group_board.h"

namespace tutti::runtime {

/// The NCCL communicator of the ranks of a node, as one rank has it. A thread of its own makes it
/// while batches move, if every rank of the node has a GPU for itself. Until it is there, and for
/// good if it cannot be made, batches move through the host.
///
/// All ranks of a node must choose the same way for a batch. So each rank announces its
/// communicator before a batch's gate (`enter`), and all ask after the gate (`is_ready`).
///
/// The thread that moves the executor uses it. It never waits, except in `abort` and `close`.
class NodeGroup {
 public:
  /// Makes what goes with the communicator, such as streams and device memory. It runs on the
  /// helper thread, with the GPU's context current. Its result is destroyed before the
  /// communicator, on that thread, too. If it throws, the node gets no communicator.
  using Equip = std::function<std::shared_ptr<void>(cuda::NcclComm&)>;

  struct Settings {
    shm::GroupBoard board;
    std::shared_ptr<const void> memory;  ///< the board's; it lives as long as somebody may use it
    std::shared_ptr<const cuda::Gpu> gpu;
    std::vector<int> ranks;  ///< of the node, by local index: for messages
    /// For everything from the start of the helper thread until the communicator is there.
    std::chrono::milliseconds limit{};
    /// Asked once every rank is able: whether this process may have a communicator now.
    std::function<bool()> claim = [] { return true; };
    std::function<cuda::NcclLibrary()> load = [] { return cuda::NcclLibrary(); };
    Equip equip = [](cuda::NcclComm&) { return nullptr; };
  };

  /// Writes this rank's place, so that the next batch finds it able. Loads nothing.
  explicit NodeGroup(Settings settings);
  /// As `close`, with two seconds.
  ~NodeGroup();
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;

  /// Before this rank enters the gate of a batch, of any kind. `sequence` counts batches, equally
  /// on all ranks that stand at the same gate. A gate may be withdrawn and its number used again.
  void enter(std::uint64_t sequence);
  /// After the gate of a batch of GPU tensors has closed: starts the helper thread when every rank
  /// is able, and gives up when a rank has failed or the time is over. Then it logs why: a warning
  /// on the node's first rank. Returns `is_ready`.
  bool look(std::uint64_t sequence, base::Clock::time_point now);
  /// Whether every rank of the node had its communicator before the gate of this batch, which has
  /// closed here. From this batch on it stays so.
  bool is_ready(std::uint64_t sequence) const;
  /// Whether every rank had a GPU of its own before the gate of this batch. For `is_ready` only.
  bool is_able(std::uint64_t sequence) const;

  /// The node's communicator. It is valid from when `is_ready` was true until `close`.
  cuda::NcclComm& comm() const;
  /// The result of `equip`. It is valid as long as `comm`.
  void* equipment() const;
  /// About how much of the device's memory the communicator and its equipment took; 0 before
  /// `is_ready`. Any thread.
  std::size_t device_bytes() const;

  /// Ends the communicator and what hangs in it, if there is one: see `NcclComm::abort`.
  bool abort(std::chrono::milliseconds limit);
  /// Ends the communicator, which nobody uses any more, and the helper thread. Blocks for `limit`
  /// at most. False: NCCL did not end in time, and the thread and all that it uses stay until the
  /// process ends. Again it does nothing.
  bool close(std::chrono::milliseconds limit);

 private:
  /// Shared by the helper thread, which may outlive the group, and the executor.
  struct Job;

  void start(base::Clock::time_point now);
  void give_up();

  const std::shared_ptr<Job> job_;
  base::NamedThread helper_;
  bool started_ = false;
  bool over_ = false;                               ///< no communicator will be made any more
  std::optional<base::Clock::time_point> gave_up_;  ///< when the thread was told to stop for that
};

}  // namespace tutti::runtime
