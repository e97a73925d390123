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

/// The NCCL communicator of the ranks of a node, as one rank has it. If every rank of the node has
/// a GPU for itself, a helper thread makes the communicator while batches move. Until it is there,
/// batches move through the host. If it cannot be made, they always do.
///
/// All ranks of a node must choose the same way for a batch. So each rank announces its
/// communicator before a batch's gate (`enter`), and all ask after the gate (`is_ready`).
///
/// The thread that moves the executor uses this object. Only `abort` and `close` wait.
class NodeGroup {
 public:
  /// Makes the objects that belong to the communicator, such as streams and device memory. It runs
  /// on the helper thread, with the GPU's context current. That thread also destroys the result,
  /// before it ends the communicator. If `Equip` throws, the node gets no communicator.
  using Equip = std::function<std::shared_ptr<void>(cuda::NcclComm&)>;

  struct Settings {
    shm::GroupBoard board;
    std::shared_ptr<const void> memory;  ///< the board's; it lives as long as somebody may use it
    std::shared_ptr<const cuda::Gpu> gpu;
    std::vector<int> ranks;  ///< of the node, by local index: for messages
    /// The time limit from the start of the helper thread until the communicator is there.
    std::chrono::milliseconds limit{};
    /// Called when every rank is able. It returns whether this process may have a communicator now.
    std::function<bool()> claim = [] { return true; };
    std::function<cuda::NcclLibrary()> load = [] { return cuda::NcclLibrary(); };
    Equip equip = [](cuda::NcclComm&) { return nullptr; };
  };

  /// Writes this rank's place, so that the next batch finds this rank able. Loads nothing.
  explicit NodeGroup(Settings settings);
  /// Does the same as `close` with a limit of two seconds.
  ~NodeGroup();
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;

  /// Call this before this rank enters the gate of any batch. `sequence` counts batches, and is
  /// equal on all ranks that stand at the same gate. If a gate is withdrawn, its number may be used
  /// again.
  void enter(std::uint64_t sequence);
  /// Call this when the gate of a batch of GPU tensors has closed. It starts the helper thread if
  /// every rank is able. It gives up if a rank has failed or the time is over; then it logs why, on
  /// the node's first rank as a warning. Returns `is_ready`.
  bool look(std::uint64_t sequence, base::Clock::time_point now);
  /// Whether every rank of the node had its communicator before the gate of this batch. That gate
  /// must have closed on this rank. All later batches get the same answer.
  bool is_ready(std::uint64_t sequence) const;
  /// Whether every rank had a GPU of its own before the gate of this batch. Only `is_ready` needs
  /// it.
  bool is_able(std::uint64_t sequence) const;

  /// The node's communicator. It is valid from the first `is_ready` that is true until `close`.
  cuda::NcclComm& comm() const;
  /// The result of `equip`. It is valid as long as `comm`.
  void* equipment() const;
  /// About how much of the device's memory the communicator and its equipment took; 0 before
  /// `is_ready`. Any thread may call it.
  std::size_t device_bytes() const;

  /// Ends the communicator, if there is one, and the work that hangs in it: see `NcclComm::abort`.
  bool abort(std::chrono::milliseconds limit);
  /// Ends the communicator, which nobody may use any more, and the helper thread. Blocks for
  /// `limit` at most. Returns false if NCCL did not end in time; then the thread, and everything
  /// that it uses, stay until the process ends. A second call does nothing.
  bool close(std::chrono::milliseconds limit);

 private:
  /// The helper thread and the executor share it. The thread may outlive the group.
  struct Job;

  void start(base::Clock::time_point now);
  void give_up();

  const std::shared_ptr<Job> job_;
  base::NamedThread helper_;
  bool started_ = false;
  bool over_ = false;  ///< no communicator will be made any more
  /// The time at which the thread was told to stop for that.
  std::optional<base::Clock::time_point> gave_up_;
};

}  // namespace tutti::runtime
