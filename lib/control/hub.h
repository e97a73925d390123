#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread.h"
#include "control/departures.h"
#include "control/link_message.h"
#include "control/loss_board.h"
#include "control/node_post.h"
#include "control/responder.h"
#include "net/link_end.h"
#include "topology/topology.h"

namespace tutti::control {

/// The thread tutti-coord of rank 0. It passes the messages of all ranks to the responder, sends
/// the answers back, and tells every node of a loss.
class Hub {
 public:
  /// The references outlive the hub.
  struct Parts {
    const topology::Topology& topology;
    const Segment& segment;
    LossBoard& board;
    net::EpollBell& bell;  ///< the collector bell of rank 0's node
    Departures& departures;
    net::Heartbeat heartbeat;
    std::vector<net::ProvenPeer> leaders;  ///< of all other nodes
    std::unique_ptr<Responder> responder;
  };

  explicit Hub(Parts parts);
  /// Sends the remaining messages, for at most 1 s. Then ends the thread.
  ~Hub();

  /// A forked child calls this. It forgets the thread, and closes the child's copies of the
  /// connections.
  void abandon();

 private:
  void run() noexcept;
  void loop();
  void work();
  void on_event(std::uint64_t token);
  void handle(int from_node, const LinkMessage& message);
  void relay_closing(int rank);
  void note_end(const net::LinkEnd& link, const std::string& why);
  void answer();
  void send_to_nodes(net::ConstBytes message);
  void relay_loss();
  void beat();
  std::optional<base::Clock::time_point> wake_up_by() const;

  Parts parts_;
  const base::Clock::time_point start_ = base::Clock::now();
  NodePost post_;
  net::Poller poller_;
  std::vector<std::unique_ptr<net::LinkEnd>> links_;  // by node; null for the node of rank 0
  net::Ticker ticker_;
  bool loss_relayed_ = false;
  std::atomic<bool> stop_{false};
  // Must be the last member: the thread uses all members above.
  std::optional<base::NamedThread> thread_;
};

}  // namespace tutti::control
