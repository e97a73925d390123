#include "control/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failure.h"
#include "control/contain.h"

namespace tutti::control {
namespace {

// Tokens of epoll events. A node's index is the token of its link. Node 0, rank 0's own, has no
// link, so 0 is free for the bell.
constexpr std::uint64_t bell_of_hub = 0;

}  // namespace

Hub::Hub(Parts parts)
    : parts_(std::move(parts)),
      post_(parts_.segment),
      links_(parts_.topology.nodes.size()),
      ticker_(parts_.heartbeat.beat) {
  poller_.add(parts_.bell.descriptor(), bell_of_hub);
  for (net::ProvenPeer& leader : parts_.leaders) {
    const auto node =
        static_cast<std::size_t>(parts_.topology.node_of[static_cast<std::size_t>(leader.rank)]);
    links_[node] = std::make_unique<net::LinkEnd>(std::move(leader), poller_, node, sign_of_life());
  }
  thread_.emplace("tutti-coord", [this] { run(); });
}

Hub::~Hub() {
  stop_ = true;
  parts_.bell.ring();
  thread_->join();
}

void Hub::abandon() {
  thread_->abandon();
  for (const auto& link : links_) {
    if (link) link->abandon();
  }
}

void Hub::run() noexcept {
  contain(parts_.board, parts_.topology.rank, "tutti-coord", [this] { loop(); });
  // The links are closed even after a failure, so that the other nodes learn of it.
  links_.clear();
  parts_.responder.reset();
}

void Hub::loop() {
  for (;;) {
    parts_.bell.arm();
    work();
    if (stop_) break;
    for (const epoll_event& event : poller_.wait(wake_up_by())) on_event(event.data.u64);
    if (!parts_.leaders.empty() && ticker_.tick()) beat();
  }
  const auto deadline = base::Clock::now() + std::chrono::seconds(1);
  for (const auto& link : links_) {
    if (link) link->drain(deadline);
  }
}

std::optional<base::Clock::time_point> Hub::wake_up_by() const {
  const auto tick = parts_.responder->next_tick();
  // If there is only one node, the hub sends no heartbeats. Without work the thread sleeps until
  // its bell rings.
  if (parts_.leaders.empty()) return tick ? std::optional(start_ + *tick) : std::nullopt;
  return tick ? std::min(start_ + *tick, ticker_.next()) : ticker_.next();
}

void Hub::work() {
  const std::vector<int>& ranks = parts_.topology.local_ranks();
  parts_.responder->tick(base::Clock::now() - start_);
  post_.collect([&](int local_index, net::ConstBytes message) {
    parts_.responder->receive(ranks[static_cast<std::size_t>(local_index)], message);
  });
  for (const int local_index : post_.take_departed()) {
    parts_.departures.mark(ranks[static_cast<std::size_t>(local_index)]);
  }
  for (const int rank : post_.take_closing(ranks)) relay_closing(rank);
  relay_loss();
  answer();
  post_.flush();
  for (const auto& link : links_) {
    if (link) link->flush();
  }
}

void Hub::relay_loss() {
  const auto lost = loss_relayed_ ? std::nullopt : parts_.board.get();
  if (!lost) return;
  loss_relayed_ = true;
  send_to_nodes(encode(*lost));
  parts_.departures.give_up();
  parts_.responder->note_lost(lost->rank, lost->reason);
}

void Hub::send_to_nodes(net::ConstBytes message) {
  for (const auto& link : links_) {
    if (link) link->queue(message);
  }
}

void Hub::answer() {
  const topology::Topology& topology = parts_.topology;
  for (const Responder::Outgoing& out : parts_.responder->take_messages()) {
    if (out.to == Responder::everyone) {
      send_to_nodes(encode(LinkMessage::Kind::message, {}, out.message));
      for (int i = 0; i < topology.local_size(); ++i) post_.deliver(i, out.message);
      continue;
    }
    const auto to = static_cast<std::size_t>(out.to);
    if (net::LinkEnd* const link = links_[static_cast<std::size_t>(topology.node_of[to])].get()) {
      link->queue(encode(LinkMessage::Kind::message, {out.to}, out.message));
    } else {
      post_.deliver(topology.local_index_of[to], out.message);
    }
  }
}

void Hub::on_event(std::uint64_t token) {
  if (token == bell_of_hub) {
    parts_.bell.silence();
    return;
  }
  net::LinkEnd& link = *links_[token];
  const auto why = link.receive([&](net::ConstBytes bytes) {
    handle(static_cast<int>(token), decode_link_message(bytes, parts_.topology.size));
  });
  if (why) note_end(link, *why);
}

void Hub::handle(int from_node, const LinkMessage& message) {
  if (message.kind == LinkMessage::Kind::lost) {
    parts_.board.report(message.ranks.front(), net::as_text(message.body));
  }
  if (message.kind == LinkMessage::Kind::lost || message.kind == LinkMessage::Kind::heartbeat)
    return;
  base::check(message.ranks.size() == 1, "a message from a leader names one sender");
  const int from = message.ranks.front();
  base::check(parts_.topology.node_of[static_cast<std::size_t>(from)] == from_node,
              "a leader speaks for its own node's ranks alone");
  if (message.kind == LinkMessage::Kind::departed) {
    parts_.departures.mark(from);
  } else if (message.kind == LinkMessage::Kind::closing) {
    post_.note_closing(from);
    relay_closing(from);
  } else {
    parts_.responder->receive(from, message.body);
  }
}

void Hub::relay_closing(int rank) {
  send_to_nodes(encode(LinkMessage::Kind::closing, {rank}, {}));
}

void Hub::note_end(const net::LinkEnd& link, const std::string& why) {
  const topology::Topology& topology = parts_.topology;
  const auto node =
      static_cast<std::size_t>(topology.node_of[static_cast<std::size_t>(link.peer())]);
  // The leader comes first in the list, because its end was seen.
  for (const int rank : topology.nodes[node]) {
    if (parts_.departures.has(rank)) continue;
    parts_.board.report(rank, fmt::format("the connection of rank 0 to its node's leader, rank "
                                          "{}, ended: {}",
                                          link.peer(), why));
    return;
  }
}

void Hub::beat() {
  for (const auto& link : links_) {
    if (!link) continue;
    if (const auto why = link->beat(parts_.heartbeat)) note_end(*link, *why);
  }
}

}  // namespace tutti::control
