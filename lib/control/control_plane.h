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

/// How the ranks of one session talk to the coordinator, and how they learn that one of them died.
/// Owns the threads tutti-link and, on rank 0, tutti-coord. MPI is not used.
///
/// Thread-safe where it says so; the rest is for one thread, the session's tutti-exec.
class ControlPlane {
 public:
  /// Makes the object that answers the messages, once it is known which ranks share a node.
  using MakeResponder = std::function<std::unique_ptr<Responder>(const topology::Topology&)>;

  /// Collective over all ranks. `make_responder` is called on rank 0.
  /// Throws on all ranks when it fails on one, after at most about `create_timeout`:
  /// `invalid_argument` for an unknown interface, `timeout` naming the ranks that did not come,
  /// `peer_lost`, `internal`.
  static std::unique_ptr<ControlPlane> open(int rank, int size, const AllGather& gather,
                                            const ControlSettings& settings,
                                            const MakeResponder& make_responder);
  /// Joins the threads, within about 3 s. To the other ranks this rank is lost, unless
  /// `announce_departed` came before. A leader and rank 0 also call `wait_for_followers` before.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  const topology::Topology& topology() const { return topology_; }

  /// Collective over the node's ranks: exchanges one descriptor a rank, by local index. For memory
  /// files, while the session is created. Throws `timeout`, `peer_lost` or `internal`, on this rank
  /// alone.
  std::vector<base::Fd> share(const base::Fd& mine);

  /// The doorbells of the node's ranks, by local index; valid as long as this object. Anybody may
  /// ring them. tutti-exec listens to the one at `topology().local_index()`. It rings for messages,
  /// for a loss, and when there is room for what `send` could not write.
  std::span<base::Doorbell* const> doorbells() const { return doorbells_; }

  /// Sends a message to the responder. Never blocks: what finds no room is kept, and later calls of
  /// `send` and `receive` write it. Messages of one rank arrive in order. Throws `internal` above
  /// 256 MiB.
  void send(net::ConstBytes message);
  /// The next message from the responder. False: none at the moment.
  bool receive(net::Bytes& message);

  /// The first loss that this rank has learnt of; it never changes. It is terminal: from now on
  /// messages may be lost. Thread-safe and cheap.
  std::optional<FailedRank> lost_rank() const;

  /// Call it when this rank has left by agreement with the coordinator and needs no more messages:
  /// from now on its end is no loss. Thread-safe.
  void announce_departed();
  /// Call it when this rank passes nothing to single ranks any more, before it asks to depart.
  /// Thread-safe.
  void announce_closing();
  /// Whether this rank has said so, as far as this node knows. Doorbells ring when that changes.
  /// Thread-safe and cheap.
  bool is_closing(int rank) const;
  /// Blocks until every rank whose messages go through this process has announced its departure
  /// (rank 0: all ranks; another leader: its node's ranks), until one is lost, or until the
  /// deadline. Returns the ranks that are still there; if there are none, this process may end.
  /// Thread-safe.
  std::vector<int> wait_for_followers(base::Clock::time_point deadline);

  struct Counters {
    std::uint64_t sent = 0;      ///< messages from this rank to the responder
    std::uint64_t received = 0;  ///< and back
  };
  Counters counters() const;
  /// One line for the dump of a hang.
  std::string describe() const;

  /// Call it first in a forked child. It closes the child's copies of the connections, so that the
  /// others see the parent's death at once, and forgets the threads. The object is not destroyed
  /// there: a thread may have been in the middle of changing it.
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
  std::atomic<std::size_t> backlog_{0};  // of up_, for describe()
  // The threads use all members above. The link ends before the hub, which relays what the link
  // reports.
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<Link> link_;
};

}  // namespace tutti::control
