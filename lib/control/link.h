#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread.h"
#include "control/uplink.h"

namespace tutti::control {

/// tutti-link, one thread at every rank: gives this rank's heartbeat, watches the processes of the
/// node's other ranks and their heartbeats; a leader other than rank 0 also has its uplink there.
class Link {
 public:
  /// What it watches and with what; the references outlive the link.
  struct Parts {
    const topology::Topology& topology;
    const Segment& segment;
    LossBoard& board;
    EpollBell& bell;  ///< wakes this thread: the node's collector bell where there is an uplink
    Departures& departures;
    std::vector<base::Fd> processes;  ///< pidfds by local index
    Heartbeat heartbeat;
    std::optional<ProvenPeer> rank0;
  };

  explicit Link(Parts parts);
  /// Ends the thread, after what was sent is with rank 0.
  ~Link();

  /// In a forked child: forgets the thread and closes the child's copy of the connection.
  void abandon();

 private:
  void run() noexcept;
  void loop();
  void on_event(std::uint64_t token);
  void beat();

  Parts parts_;
  Poller poller_;
  std::vector<HeartbeatCheck> checks_;
  Ticker ticker_;
  std::unique_ptr<Uplink> uplink_;
  std::atomic<bool> stop_{false};
  std::optional<base::NamedThread> thread_;  // last: it uses all that stands above
};

}  // namespace tutti::control
