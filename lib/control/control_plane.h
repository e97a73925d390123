#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/control_settings.h"
#include "control/departures.h"
#include "control/loss_board.h"
#include "control/responder.h"
#include "net/message_stream.h"
#include "topology/topology.h"

namespace tutti::control {

struct Company;
class Hub;
class Link;
class NodeChannel;

/// The means by which the ranks of one session talk to the coordinator, and learn that a rank has
/// died. It owns the threads tutti-link and, on rank 0, tutti-coord. It does not use MPI.
///
/// Some methods say that they are thread-safe. Only the session's tutti-exec may call the others.
class ControlPlane {
 public:
  /// Makes the object that answers the messages. It is called when it is known which ranks share a
  /// node.
  using MakeResponder = std::function<std::unique_ptr<Responder>(const topology::Topology&)>;

  /// Collective over all ranks. Calls `make_responder` on rank 0. If it fails on one rank, it
  /// throws on all ranks, after at most about `create_timeout`:
  /// - `invalid_argument` for an unknown interface;
  /// - `timeout`, which names the ranks that did not come;
  /// - `peer_lost`;
  /// - `internal`.
  static std::unique_ptr<ControlPlane> open(int rank, int size, const AllGather& gather,
                                            const ControlSettings& settings,
                                            const MakeResponder& make_responder);
  /// Joins the threads, within about 3 s. If `announce_departed` was not called before, the other
  /// ranks take this rank for lost. Call `wait_for_followers` before on rank 0 and on the leader of
  /// each other node.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  const topology::Topology& topology() const { return topology_; }

  /// Collective over the node's ranks: each rank passes one descriptor, and gets those of all
  /// ranks, by local index. It is for memory files, while the session is created. Throws `timeout`,
  /// `peer_lost` or `internal`, on this rank alone.
  std::vector<base::Fd> share(const base::Fd& mine);

  /// The doorbells of the node's ranks, by local index. They are valid as long as this object. Any
  /// thread may ring them. tutti-exec listens to the one at `topology().local_index()`. That
  /// doorbell rings for messages, for a loss, and when there is room for messages that `send` could
  /// not write.
  std::span<base::Doorbell* const> doorbells() const { return doorbells_; }

  /// Sends a message to the responder. Never blocks: if there is no room, it keeps the message, and
  /// later calls of `send` and `receive` write it. The messages of one rank arrive in order. Throws
  /// `internal` if the message has more than 256 MiB.
  void send(net::ConstBytes message);
  /// Takes the next message from the responder. Returns false if there is none at the moment.
  bool receive(net::Bytes& message);

  /// The first loss that this rank has learnt of. It never changes, and it is terminal: from now on
  /// messages may be lost. Thread-safe and cheap.
  std::optional<FailedRank> lost_rank() const;

  /// Call this when this rank has left by agreement with the coordinator and needs no more
  /// messages. From then on the other ranks do not take its end for a loss. Thread-safe.
  void announce_departed();
  /// Call this when this rank sends nothing to single ranks any more, before it asks to depart.
  /// Thread-safe.
  void announce_closing();
  /// Whether that rank has called `announce_closing`, as far as this node knows. Doorbells ring
  /// when the answer changes. Thread-safe and cheap.
  bool is_closing(int rank) const;
  /// Some ranks send their messages through this process: all ranks through rank 0, and the ranks
  /// of another node through their leader. Blocks until all these ranks have announced their
  /// departure, until one is lost, or until the deadline. Returns the ranks that are still there.
  /// If there are none, this process may end. Thread-safe.
  std::vector<int> wait_for_followers(base::Clock::time_point deadline);

  struct Counters {
    std::uint64_t sent = 0;      ///< messages from this rank to the responder
    std::uint64_t received = 0;  ///< the number of messages from the coordinator
  };
  Counters counters() const;
  /// Describes the plane in one line, for the report of a hang.
  std::string describe() const;

  /// Call this first in a forked child. It closes the child's copies of the connections, so that
  /// the other ranks see the parent's death at once, and it forgets the threads. The child never
  /// destroys the object, because a thread may have been changing it at the fork.
  void abandon_in_child();

 private:
  ControlPlane(Company company, const ControlSettings& settings,
               const MakeResponder& make_responder);
  void start_threads(Company company, const MakeResponder& make_responder);
  void note_backlog() { backlog_.store(up_.backlog_bytes(), std::memory_order_relaxed); }

  const topology::Topology topology_;
  const std::chrono::milliseconds create_timeout_;
  const std::function<void()> look_;
  std::unique_ptr<NodeChannel> node_;  ///< null once `share` has failed
  Segment segment_;
  std::atomic<std::uint32_t> link_sleeps_{0};
  net::EpollBell collector_bell_;  // wakes the collector of the node's messages, in any process
  net::EpollBell link_bell_;       // wakes this process's tutti-link, unless that is the collector
  LossBoard board_;
  Departures departures_;
  net::MailSender up_;
  net::MailReceiver down_;
  std::vector<base::Doorbell*> doorbells_;
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::size_t> backlog_{0};  // the size of up_, for describe()
  // The threads use all members above. The link ends before the hub, because the hub relays what
  // the link reports.
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<Link> link_;
};

}  // namespace tutti::control
