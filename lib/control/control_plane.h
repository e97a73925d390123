#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/board.h"
#include "control/departures.h"
#include "control/message_stream.h"
#include "control/responder.h"
#include "control/settings.h"
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
  /// Makes what answers the messages, once it is known which ranks share a node.
  using MakeResponder = std::function<std::unique_ptr<Responder>(const topology::Topology&)>;

  /// Collective over all ranks. `make_responder` is called on rank 0.
  /// Throws on all ranks when it fails on one, after at most about `create_timeout`:
  /// `invalid_argument` for an unknown interface, `timeout` naming the ranks that did not come,
  /// `peer_lost`, `internal`.
  static std::unique_ptr<ControlPlane> open(int rank, int size, const AllGather& gather,
                                            const Settings& settings,
                                            const MakeResponder& make_responder);
  /// Joins the threads, within about 3 s. To the other ranks this is a death unless
  /// `announce_departed` came before; a leader and rank 0 call `wait_for_followers` too.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  const topology::Topology& topology() const { return topology_; }

  /// Collective over the node's ranks: everyone's descriptor, by local index. For memory files,
  /// while the session is created. Throws `timeout`, `peer_lost`, `internal`, on this rank alone.
  std::vector<base::Fd> share(const base::Fd& mine);

  /// Of the node's ranks, by local index; valid as long as this object. Anybody may ring; the one
  /// at `topology().local_index()` is for tutti-exec to listen to. It rings for messages, for room
  /// for what `send` could not place, and for a loss.
  std::span<base::Doorbell* const> doorbells() const { return doorbells_; }

  /// To the responder. Never blocks: what finds no room is kept and follows with later calls of
  /// `send` and `receive`. Messages of one rank arrive in order. Throws `internal` above 256 MiB.
  void send(ConstBytes message);
  /// The next message from the responder. False: none at the moment.
  bool receive(Bytes& message);

  /// The first loss that this rank learnt of; the same for ever. Terminal: from now on messages may
  /// get nowhere. Thread-safe, cheap.
  std::optional<LostRank> lost_rank() const;

  /// This rank has left by agreement with the coordinator and needs no more messages: from now on
  /// its end is no death. Thread-safe.
  void announce_departed();
  /// Blocks until every rank whose messages go through this process has announced its departure
  /// (on rank 0: everybody; on another leader: its node's ranks), until one is lost, or until the
  /// deadline. The ranks still there; empty: this process is free to go. Thread-safe.
  std::vector<int> wait_for_followers(base::Clock::time_point deadline);

  struct Counters {
    std::uint64_t sent = 0;      ///< messages from this rank to the responder
    std::uint64_t received = 0;  ///< and back
  };
  Counters counters() const;
  /// One line for the dump of a hang.
  std::string describe() const;

  /// In a forked child, before anything else: closes the child's copies of the connections, so that
  /// the parent's death shows at once, and forgets the threads. Only destruction may follow.
  void abandon_in_child();

 private:
  ControlPlane(Company company, const Settings& settings, const MakeResponder& make_responder);
  void start_threads(Company company, const MakeResponder& make_responder);
  void note_backlog() { backlog_.store(up_.backlog_bytes(), std::memory_order_relaxed); }

  const topology::Topology topology_;
  const std::chrono::milliseconds create_timeout_;
  const std::function<void()> look_;
  std::unique_ptr<NodeChannel> node_;
  Segment segment_;
  std::atomic<std::uint32_t> link_sleeps_{0};
  EpollBell collector_bell_;  // of the thread that collects the node's mail, in whatever process
  EpollBell link_bell_;       // of this process's tutti-link, unless that collects
  LossBoard board_;
  Departures departures_;
  MailSender up_;
  MailReceiver down_;
  std::vector<base::Doorbell*> doorbells_;
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::size_t> backlog_{0};  // of up_, for describe()
  // The threads use all that stands above. The link ends first: what it reports is relayed.
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<Link> link_;
};

}  // namespace tutti::control
