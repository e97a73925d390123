#include "control/uplink.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failure.h"

namespace tutti::control {

Uplink::Uplink(const topology::Topology& topology, const Segment& segment, LossBoard& board,
               Departures& departures, net::ProvenPeer rank0, net::Poller& poller,
               std::uint64_t token)
    : topology_(topology),
      board_(board),
      departures_(departures),
      post_(segment),
      link_(std::move(rank0), poller, token, sign_of_life()) {}

void Uplink::work() {
  const std::vector<int>& ranks = topology_.local_ranks();
  post_.collect([&](int local_index, net::ConstBytes message) {
    const int from = ranks[static_cast<std::size_t>(local_index)];
    link_.queue(encode(LinkMessage::Kind::message, {from}, message));
  });
  for (const int local_index : post_.take_departed()) {
    const int rank = ranks[static_cast<std::size_t>(local_index)];
    departures_.mark(rank);
    link_.queue(encode(LinkMessage::Kind::departed, {rank}, {}));
  }
  for (const int rank : post_.take_closing(ranks)) {
    link_.queue(encode(LinkMessage::Kind::closing, {rank}, {}));
  }
  if (const auto lost = loss_relayed_ ? std::nullopt : board_.get()) {
    link_.queue(encode(*lost));
    departures_.give_up();
    loss_relayed_ = true;
  }
  post_.flush();
  link_.flush();
}

void Uplink::on_event() {
  const auto why = link_.receive(
      [this](net::ConstBytes bytes) { handle(decode_link_message(bytes, topology_.size)); });
  if (why) note_end(*why);
}

void Uplink::handle(const LinkMessage& message) {
  if (message.kind == LinkMessage::Kind::lost) {
    board_.report(message.ranks.front(), net::as_text(message.body));
  }
  if (message.kind == LinkMessage::Kind::closing) post_.note_closing(message.ranks.front());
  if (message.kind != LinkMessage::Kind::message) return;
  for (const int rank : message.ranks.empty() ? topology_.local_ranks() : message.ranks) {
    const auto at = static_cast<std::size_t>(rank);
    base::check(topology_.node_of[at] == topology_.node(),
                "a leader gets messages for its own node's ranks alone");
    post_.deliver(topology_.local_index_of[at], message.body);
  }
}

bool Uplink::all_departed() const {
  return std::ranges::all_of(topology_.local_ranks(),
                             [this](int rank) { return departures_.has(rank); });
}

void Uplink::note_end(const std::string& why) {
  if (all_departed()) return;
  board_.report(0, fmt::format("the connection of rank {} to it ended: {}", topology_.rank, why));
}

void Uplink::beat(const net::Heartbeat& heartbeat) {
  if (const auto why = link_.beat(heartbeat)) note_end(*why);
}

void Uplink::say_goodbye() {
  const auto deadline = base::Clock::now() + std::chrono::seconds(3);
  work();
  link_.drain(deadline);
  link_.close_gracefully(deadline);
}

}  // namespace tutti::control
