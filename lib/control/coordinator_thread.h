#pragma once
#include <atomic>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/thread.h"
#include "control/link.h"
#include "control/poller.h"
#include "control/ring.h"
#include "control/segment.h"
#include "coordinator/coordinator.h"
#include "topology/topology.h"

namespace tutti::control {

/// `tutti-coord` on rank 0: the coordinator between its own node's rings and the links of the other
/// nodes' leaders.
class CoordinatorThread {
 public:
  CoordinatorThread(const topology::Topology& topology, Mailbox* boxes, const base::Fd& upward,
                    std::vector<std::pair<int, Link>> links, const coordinator::Settings& settings,
                    std::chrono::milliseconds heartbeat_timeout);
  /// Waits until every rank has departed, or one is lost.
  ~CoordinatorThread();

 private:
  struct Peer {
    int leader = 0;
    Link link;
    int missed = 0;
    bool down = false;
    bool dirty = false;  ///< letters were added since the last frame
  };

  void run();
  void serve();
  void read_node();
  void read_link(Peer& peer);
  void beat();
  void drop(Peer& peer, const std::string& reason);
  void hand_over(int from, std::span<const std::byte> message);
  void answer();
  void post(const coordinator::Outgoing& outgoing);
  bool over() const { return coordinator_.finished() || any_lost_; }
  coordinator::Time now() const { return base::Clock::now() - start_; }

  const topology::Topology& topology_;
  Mailbox* boxes_;
  const base::Fd& upward_;
  coordinator::Coordinator coordinator_;
  const int most_missed_;
  const base::Clock::time_point start_ = base::Clock::now();
  Poller poller_;
  std::vector<Peer> peers_;
  std::vector<RingReader> up_;
  std::vector<RingWriter> down_;
  std::atomic<bool> stopping_{false};
  bool any_lost_ = false;
  base::NamedThread thread_;
};

}  // namespace tutti::control
