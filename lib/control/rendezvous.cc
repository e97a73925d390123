#include "control/rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "base/failure.h"
#include "base/process_end.h"
#include "control/agree.h"
#include "control/segment.h"
#include "net/epoll_bell.h"
#include "net/interfaces.h"
#include "net/sockets.h"

namespace tutti::control {
namespace {

using base::Clock;

struct OwnEnd {
  base::Fd watched;  ///< for others: readable when this process has ended
  /// A descriptor that ends with this process, if `watched` is not the process itself.
  base::Fd held;
};

/// If there are no pidfds, the other ranks watch a pipe. A child that was forked from this process
/// may outlive it, and keeps the pipe open. Then the others notice the missing heartbeats.
OwnEnd own_end() {
  if (base::Fd process = base::watch_process(::getpid())) return {std::move(process), {}};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw base::system_failure("make a pipe");
  return {base::Fd(ends[0]), base::Fd(ends[1])};
}

/// The steps in which the ranks meet, in order. Between two steps the ranks agree that all have got
/// so far.
class Rendezvous {
 public:
  Rendezvous(int rank, const ControlSettings& settings)
      : rank_(rank),
        settings_(settings),
        secret_(net::make_secret(settings.secret)),
        patience_(Clock::now() + settings.create_timeout, settings.look, creation) {}

  /// Returns this rank's heartbeat timeout in ms.
  std::string listen();
  /// Returns the lowest rank that answers on this node.
  std::string find_leader();
  /// Rank 0 returns its port and addresses, and the other ranks nothing.
  std::string publish(const topology::Topology& topology);
  void connect(const std::string& rank0, Company& company);

 private:
  std::string name_of(int rank) const;
  net::Identity identity(const char* purpose) const {
    return {.rank = rank_, .secret = secret_, .purpose = purpose, .encrypts = settings_.encrypts};
  }
  void connect_leaders(const std::string& rank0, Company& company);
  net::ProvenPeer connect_to_rank0(const std::string& published);
  NodeChannel connect_node(const topology::Topology& topology);
  base::Fd connect_leader(int leader);
  void share_descriptors(Company& company) const;

  int rank_;
  const ControlSettings& settings_;
  net::Secret secret_;
  const base::Patience patience_;
  std::string source_;  // the local address for links, if an interface was named
  base::Fd node_listener_;
  base::Fd leader_socket_;
  base::Fd link_listener_;
};

std::string Rendezvous::name_of(int rank) const {
  return net::secret_name(secret_, fmt::format("node {} {}", settings_.node_label, rank));
}

std::string Rendezvous::listen() {
  if (!settings_.interface.empty()) source_ = net::reachable_addresses(settings_.interface).front();
  node_listener_ = net::listen_abstract(name_of(rank_));
  return std::to_string(settings_.heartbeat_timeout.count());
}

std::string Rendezvous::find_leader() {
  for (int other = 0; other < rank_; ++other) {
    net::AbstractPeer peer = net::connect_abstract(name_of(other));
    if (peer.reached == net::Reached::nobody) continue;
    leader_socket_ = std::move(peer.socket);
    return std::to_string(other);
  }
  return std::to_string(rank_);
}

std::string Rendezvous::publish(const topology::Topology& topology) {
  if (rank_ != 0 || topology.node_count() == 1) return "";
  const std::vector<std::string> addresses = net::reachable_addresses(settings_.interface);
  link_listener_ = settings_.interface.empty() ? net::listen_tcp_everywhere(addresses.front())
                                               : net::listen_tcp(addresses.front());
  std::string text = std::to_string(net::port_of(link_listener_));
  for (const std::string& address : addresses) text += " " + address;
  return text;
}

void Rendezvous::connect(const std::string& rank0, Company& company) {
  connect_leaders(rank0, company);
  company.node = std::make_unique<NodeChannel>(connect_node(company.topology));
  share_descriptors(company);
}

void Rendezvous::connect_leaders(const std::string& rank0, Company& company) {
  const topology::Topology& topology = company.topology;
  if (topology.node_count() == 1 || !topology.is_leader()) return;
  if (rank_ == 0) {
    std::vector<int> leaders;
    for (int node = 1; node < topology.node_count(); ++node) {
      leaders.push_back(topology.leader(node));
    }
    company.links = net::accept_peers(link_listener_, identity("link"), leaders, patience_);
    link_listener_.reset();
  } else {
    company.links.push_back(connect_to_rank0(rank0));
  }
  for (const net::ProvenPeer& peer : company.links) net::tune_link(peer.socket);
}

net::ProvenPeer Rendezvous::connect_to_rank0(const std::string& published) {
  std::istringstream words(published);
  std::uint16_t port = 0;
  words >> port;
  // This host may not reach some of rank 0's networks. An address of rank 0 may belong to another
  // host here. The handshake tells.
  std::vector<net::Candidate> candidates;
  for (std::string address; words >> address;) {
    candidates.push_back(net::start_candidate(address, port, source_));
  }
  return net::prove_to(std::move(candidates), identity("link"), 0, patience_);
}

NodeChannel Rendezvous::connect_node(const topology::Topology& topology) {
  std::vector<int> ranks = topology.local_ranks();
  std::vector<base::Fd> sockets(topology.is_leader() ? ranks.size() : 1);
  if (!topology.is_leader()) {
    sockets[0] = connect_leader(ranks.front());
  } else {
    const std::vector<int> members(ranks.begin() + 1, ranks.end());
    for (net::ProvenPeer& peer :
         net::accept_peers(node_listener_, identity("node"), members, patience_)) {
      const auto at = static_cast<std::size_t>(peer.rank);
      sockets[static_cast<std::size_t>(topology.local_index_of[at])] = std::move(peer.socket);
    }
  }
  node_listener_.reset();
  return {std::move(ranks), topology.local_index(), std::move(sockets)};
}

base::Fd Rendezvous::connect_leader(int leader) {
  // There is no socket yet if the node has so many ranks that the leader's queue was full. By now
  // the leader takes them in.
  if (!leader_socket_) {
    const std::string who = fmt::format("rank {}, on the same node as rank {}", leader, rank_);
    leader_socket_ = net::connect_abstract(name_of(leader), who, patience_);
  }
  std::vector<net::Candidate> candidates;
  candidates.push_back({std::move(leader_socket_), "its Unix socket"});
  return net::prove_to(std::move(candidates), identity("node"), leader, patience_).socket;
}

void Rendezvous::share_descriptors(Company& company) const {
  base::Fd segment;
  base::Fd collector;
  if (company.topology.is_leader()) {
    const std::size_t bytes = Segment::bytes(company.topology.local_size(), company.topology.size);
    segment = base::create_memory_file("control", bytes);
    base::reserve(segment, 0, bytes);
    collector = net::EpollBell::make_descriptor();
  }
  company.segment = company.node->from_leader(segment, patience_);
  company.collector = company.node->from_leader(collector, patience_);
  OwnEnd end = own_end();
  company.processes = company.node->exchange(end.watched, patience_);
  const auto me = static_cast<std::size_t>(company.topology.local_index());
  if (end.held) company.processes[me] = std::move(end.held);
}

std::chrono::milliseconds shortest(const std::vector<std::string>& timeouts) {
  long long least = std::stoll(timeouts.front());
  for (const std::string& one : timeouts) least = std::min(least, std::stoll(one));
  return std::chrono::milliseconds(least);
}

}  // namespace

Company find_company(int rank, int size, const AllGather& gather, const ControlSettings& settings) {
  Rendezvous meeting(rank, settings);
  Company company;
  const auto timeouts = agree(gather, [&] { return meeting.listen(); });
  company.heartbeat = net::Heartbeat::from(settings.heartbeat_timeout, shortest(timeouts));
  std::vector<int> leaders;
  for (const std::string& leader : agree(gather, [&] { return meeting.find_leader(); })) {
    leaders.push_back(std::stoi(leader));
  }
  base::check(leaders.size() == static_cast<std::size_t>(size), "every rank takes part");
  company.topology = topology::make_topology(rank, leaders);
  const auto published = agree(gather, [&] { return meeting.publish(company.topology); });
  agree(gather, [&] {
    Company connected{company.topology, company.heartbeat, {}, {}, {}, {}, {}};
    // If this throws, the sockets are closed. The other ranks see that at once, and do not wait.
    meeting.connect(published.front(), connected);
    company = std::move(connected);
    return std::string();
  });
  return company;
}

}  // namespace tutti::control
