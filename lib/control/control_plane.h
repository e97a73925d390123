#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/doorbell.h"
#include "base/mapping.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "control/link.h"
#include "control/node.h"
#include "control/ring.h"
#include "control/segment.h"
#include "coordinator/types.h"
#include "topology/topology.h"

namespace tutti::control {

class CoordinatorThread;
class LinkThread;

struct Settings {
  std::string interface;  ///< empty: the system's choice
  std::chrono::milliseconds heartbeat_timeout{30'000};
  std::chrono::milliseconds create_timeout{300'000};
  std::string secret;  ///< 32 random bytes, the same on all ranks
  coordinator::Settings coordinator;
  base::Mapper map = base::map_file;
};

struct LostRank {
  int rank = 0;
  std::string reason;
};

/// Carries messages between ranks and the coordinator, which it runs on rank 0, and notices death.
///
/// Inside a node messages go through rings in shared memory; between nodes over one authenticated
/// TCP connection from each leader to rank 0. Threads: `tutti-link` everywhere, `tutti-coord` on
/// rank 0; both sleep when there is nothing to do.
class ControlPlane {
 public:
  /// Collective over all ranks, blocking at most `create_timeout`.
  static std::unique_ptr<ControlPlane> open(int rank, const AllGather& all_gather,
                                            const Settings& settings);
  /// Waits, while others of this job still need this process to pass on their messages, and says
  /// so; then ends the threads.
  ~ControlPlane();

  const topology::Topology& topology() const { return node_.topology(); }
  /// Collective over the node, blocking, before the first message: everyone's descriptor.
  std::vector<base::Fd> share(const base::Fd& mine);
  /// By local index. A rank's own is listened to by its communication thread alone.
  std::span<base::Doorbell* const> doorbells() const { return doorbells_; }

  /// The next three belong to the communication thread and never block.
  void send(std::span<const std::byte> message);
  bool receive(std::vector<std::byte>& message);
  /// This rank's end is no death from now on.
  void announce_departed();

  /// The first loss that was noticed here; sticky. Thread-safe. It rings the doorbell.
  std::optional<LostRank> lost() const TUTTI_EXCLUDES(mutex_);
  /// Messages this rank has sent and received. Thread-safe.
  std::uint64_t message_count() const { return messages_.load(std::memory_order_relaxed); }

 private:
  ControlPlane(Node node, const Settings& settings);
  void open_node();
  void open_links(const AllGather& all_gather);
  void start_threads();
  void note_loss(int rank, const std::string& reason) TUTTI_EXCLUDES(mutex_);
  Mailbox& box(int local) const { return boxes_[local]; }
  Mailbox& mine() const { return boxes_[topology().local_index()]; }

  Settings settings_;
  Deadline deadline_;
  Node node_;
  std::shared_ptr<base::Mapping> segment_;
  Mailbox* boxes_ = nullptr;
  std::vector<base::Doorbell*> doorbells_;
  std::vector<base::Fd> pidfds_;  ///< by local index
  base::Fd upward_;               ///< wakes whoever reads this node's upward rings
  std::unique_ptr<RingWriter> writer_;
  std::unique_ptr<RingReader> reader_;

  mutable base::Mutex mutex_;
  std::optional<LostRank> lost_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<bool> any_lost_{false};
  std::atomic<std::uint64_t> messages_{0};

  std::optional<Link> to_rank_0_;  ///< of a leader elsewhere, until its thread takes it
  std::vector<std::pair<int, Link>> to_leaders_;  ///< of rank 0, likewise
  std::unique_ptr<CoordinatorThread> coordinator_thread_;
  std::unique_ptr<LinkThread> link_thread_;
};

}  // namespace tutti::control
