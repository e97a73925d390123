#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/thread.h"
#include "control/link.h"
#include "control/poller.h"
#include "control/ring.h"
#include "control/segment.h"
#include "topology/topology.h"

namespace tutti::control {

/// `tutti-link`: watches the processes of this rank's node, counts heartbeats, and on the leader of
/// a node without rank 0 passes messages between the node's rings and rank 0.
class LinkThread {
 public:
  struct Duties {
    Mailbox* boxes = nullptr;
    const std::vector<base::Fd>* pidfds = nullptr;
    const base::Fd* upward = nullptr;
    std::optional<Link> to_rank_0;
    std::chrono::milliseconds heartbeat_timeout{};
    /// Called on this thread, at most once a rank.
    std::function<void(int rank, const std::string& reason)> on_loss;
  };

  LinkThread(const topology::Topology& topology, Duties duties);
  /// A leader that passes messages on first waits until its node's ranks have departed or died.
  ~LinkThread();

 private:
  struct Pulse {
    std::uint64_t seen = 0;
    int missed = 0;  ///< of this thread's own ticks, so that a suspended job misses none
  };

  void run();
  void beat();
  void check_pulse(int local);
  void process_ended(int local);
  void lose(int local, const std::string& reason);
  void pass_up();
  void pass_down();
  void link_lost(const std::string& reason);
  void tell_node_of_loss(int rank, const std::string& reason);
  bool all_local_gone() const;
  bool needed() const { return duties_.to_rank_0.has_value() && !link_down_ && !all_local_gone(); }

  const topology::Topology& topology_;
  Duties duties_;
  const int most_missed_;
  Poller poller_;
  base::Fd stop_;
  std::atomic<bool> stopping_{false};
  std::vector<Pulse> pulses_;
  std::vector<bool> gone_;
  std::vector<RingReader> up_;
  std::vector<RingWriter> down_;
  Pulse link_pulse_;
  bool link_down_ = false;
  base::NamedThread thread_;
};

}  // namespace tutti::control
