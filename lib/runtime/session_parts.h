#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/doorbell.h"
#include "collective/engine.h"
#include "collective/tuning.h"
#include "control/control_plane.h"
#include "coordinator/types.h"
#include "mpi/library.h"
#include "observe/timeline.h"
#include "runtime/device_side.h"
#include "runtime/peer_side.h"
#include "runtime/timeline_files.h"
#include "runtime/world.h"
#include "shm/arena.h"
#include "shm/node_memory.h"
#include "topology/topology.h"
#include "tutti/options.h"
#include "tutti/tensor.h"

namespace tutti::runtime {

/// The parts of a session. All ranks build them together, and take them apart in reverse order.
class SessionParts {
 public:
  /// Runs on a control thread, until `close`.
  using OnLoss = std::function<void(const control::FailedRank&)>;

  /// Collective, blocking. The ranks agree on every step that can fail on one rank alone. So all
  /// ranks throw together, and name the rank that failed.
  static std::unique_ptr<SessionParts> open(World world, const Options& options, OnLoss on_loss);

  const topology::Topology& topology() const { return control_->topology(); }
  const coordinator::Settings& protocol() const { return protocol_; }
  control::ControlPlane& control() { return *control_; }
  /// The number of messages sent and received. Heartbeats do not count.
  std::uint64_t control_messages() const;
  collective::Engine& engine() { return *engine_; }
  DeviceSide& device() { return *device_; }
  PeerSide& peers() { return *peer_side_; }
  /// The timeline belongs to the thread that moves the executor. Other threads may only call its
  /// `now`.
  observe::Timeline& timeline() { return *timeline_; }
  /// The communicator for data between nodes. Null if there is one node.
  const mpi::Communicator* data() const { return data_.get(); }
  base::Doorbell& bell();
  Tensor allocate(const Shape& shape, DType dtype);
  /// This rank's share of the segments of its node.
  std::size_t segment_bytes() const;
  const shm::Arena& arena() const { return *arena_; }
  const collective::Machine& machine() const { return machine_; }
  const collective::Tuning& tuning() const { return tuning_; }

  /// Sets the function that runs if the program finalises MPI while the store lives. Null removes
  /// it.
  void on_mpi_finalise(std::function<void()> stop);
  /// Notes that a rank died: MPI can no longer be finalised without hanging. For `told` see
  /// mpi::abandon.
  void abandon_mpi(bool told);
  /// Blocks as long as other ranks send messages through this process, and logs these ranks.
  void wait_for_followers(std::chrono::milliseconds notice_after, std::chrono::milliseconds limit);
  /// If the options ask for a timeline, writes this rank's part of it. Call this when nothing moves
  /// any more, and before this rank is announced as departed.
  void write_timeline(bool lost);
  /// Writes the whole timeline. Rank 0 calls this when all others have departed.
  void merge_timeline();
  /// A forked child calls this, and never destroys the object, because the threads are the
  /// parent's.
  void abandon_in_child();
  /// Ends the control plane's threads and frees the communicators. A second call does nothing.
  void close();

 private:
  explicit SessionParts(World world) : world_(std::move(world)) {}
  void open_all(const Options& options, OnLoss on_loss);
  void compare_ranks(const Options& options);
  void open_control(const Options& options, OnLoss on_loss);
  void open_communicators();
  void open_memory(const Options& options);
  void open_device(base::Fd staging, const Options& options);
  void open_peers(base::Fd memory);
  void map_memory(const shm::NodeMemory::Layout& layout, const base::Fd& segment,
                  const std::vector<base::Fd>& arenas);
  void open_timeline(const Options& options);
  /// Maps memory that transfers between nodes use. The memory outlives these transfers.
  base::Mapper mapper();
  void leave_communicators();
  /// Runs `step`, and agrees with the other ranks on its outcome.
  void agree(const std::string& what, const std::function<void()>& step);

  World world_;
  /// Null if no rank is on another node.
  std::unique_ptr<mpi::Communicator> data_;
  std::unique_ptr<mpi::Communicator> gate_;
  coordinator::Settings protocol_;
  collective::Machine machine_;
  collective::Tuning tuning_;
  std::unique_ptr<control::ControlPlane> control_;
  std::shared_ptr<shm::Arena> arena_;
  std::vector<std::shared_ptr<base::Mapping>> peers_;  ///< the other local ranks' arenas
  std::shared_ptr<base::Mapping> segment_;
  std::unique_ptr<shm::NodeMemory> memory_;
  std::unique_ptr<DeviceSide> device_;
  std::unique_ptr<PeerSide> peer_side_;
  std::unique_ptr<collective::Engine> engine_;
  std::unique_ptr<observe::Timeline> timeline_;
  std::unique_ptr<TimelineFiles> timeline_files_;  ///< null when it is off
  std::unique_ptr<mpi::StopHook> stop_hook_;
};

}  // namespace tutti::runtime
