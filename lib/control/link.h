#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread.h"
#include "control/uplink.h"

namespace tutti::control {

/// The thread tutti-link of every rank. It sends this rank's heartbeat, and watches the processes
/// and the heartbeats of the other ranks of its node. On a leader other than rank 0 it also drives
/// the uplink.
class Link {
 public:
  /// The objects that the thread uses. The references outlive the link.
  struct Parts {
    const topology::Topology& topology;
    const Segment& segment;
    LossBoard& board;
    net::EpollBell&
        bell;  ///< wakes this thread; on the owner of an uplink the node's collector bell
    Departures& departures;
    std::vector<base::Fd> processes;  ///< as in `Company`
    net::Heartbeat heartbeat;
    std::optional<net::ProvenPeer> rank0;
  };

  explicit Link(Parts parts);
  /// Ends the thread once rank 0 has received all sent messages, or after 3 s.
  ~Link();

  /// A forked child calls this. It forgets the thread, and closes the child's copy of the
  /// connection.
  void abandon();

 private:
  void run() noexcept;
  void loop();
  void on_event(std::uint64_t token);
  void beat();

  Parts parts_;
  net::Poller poller_;
  std::vector<net::HeartbeatCheck> checks_;
  net::Ticker ticker_;
  std::unique_ptr<Uplink> uplink_;
  std::atomic<bool> stop_{false};
  // Must be the last member: the thread uses all members above.
  std::optional<base::NamedThread> thread_;
};

}  // namespace tutti::control
