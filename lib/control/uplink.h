#pragma once
#include "control/departures.h"
#include "control/link_message.h"
#include "control/loss_board.h"
#include "control/node_post.h"
#include "net/link_end.h"
#include "topology/topology.h"

namespace tutti::control {

/// A leader's end of its link to rank 0. It forwards the messages of its node's ranks, delivers the
/// answers, and forwards losses in both directions. The leader's tutti-link drives it.
class Uplink {
 public:
  /// The references outlive the uplink. `token` marks the events of its socket.
  Uplink(const topology::Topology& topology, const Segment& segment, LossBoard& board,
         Departures& departures, net::ProvenPeer rank0, net::Poller& poller, std::uint64_t token);

  /// Forwards and delivers all messages that are there. Does not wait.
  void work();
  /// Call it when the socket is ready.
  void on_event();
  /// Sends a heartbeat, and checks the heartbeats of rank 0.
  void beat(const net::Heartbeat& heartbeat);
  /// Sends the remaining messages, and waits for at most 3 s until rank 0 has read them all.
  void say_goodbye();
  /// A forked child calls this. It closes the child's copy of the connection.
  void abandon() { link_.abandon(); }

 private:
  bool all_departed() const;
  void handle(const LinkMessage& message);
  void note_end(const std::string& why);

  const topology::Topology& topology_;
  LossBoard& board_;
  Departures& departures_;
  NodePost post_;
  net::LinkEnd link_;
  bool loss_relayed_ = false;
};

}  // namespace tutti::control
