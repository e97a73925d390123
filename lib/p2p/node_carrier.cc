#include "p2p/node_carrier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/failure.h"

namespace tutti::p2p {
namespace {

/// The number of bytes of one transfer that move in a step.
constexpr std::size_t bytes_a_step = std::size_t{64} << 10;

}  // namespace

NodeCarrier::NodeCarrier(std::vector<int> ranks, PairMemory& memory)
    : ranks_(std::move(ranks)), memory_(memory), me_(memory.local_index()), peers_(ranks_.size()) {}

int NodeCarrier::local(int rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  base::check(at != ranks_.end() && *at == rank, "a node's memory leads to its own ranks");
  return static_cast<int>(at - ranks_.begin());
}

void NodeCarrier::open(int rank, Use use) {
  const int to = local(rank);
  memory_.reserve_frames(to);
  if (use == Use::send) memory_.reserve_data(to);
}

void NodeCarrier::post(int to, const Frame& frame, std::span<const std::byte> elements) {
  const int at = local(to);
  // The elements are written first, so that a rank that finds the frame also finds them.
  const std::size_t written = elements.empty() ? 0 : memory_.data(me_, at).write(elements);
  base::check(written == elements.size(), "a ring of elements has room for those of eager sends");
  peers_[static_cast<std::size_t>(at)].outbox.push_back(frame);
  ++waiting_frames_;
  flush_frames(at);
}

void NodeCarrier::send(int to, std::span<const std::byte> data) {
  if (data.empty()) return;
  peers_[static_cast<std::size_t>(local(to))].leaving.push_back(data);
  ++transfers_;
}

void NodeCarrier::receive(int from, TransferId call, std::span<std::byte> data) {
  peers_[static_cast<std::size_t>(local(from))].coming.push_back({call, data});
  ++transfers_;
}

void NodeCarrier::forget(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(local(rank))];
  waiting_frames_ -= peer.outbox.size();
  transfers_ -= peer.leaving.size() + peer.coming.size();
  peer = {};
}

bool NodeCarrier::step(News& news) {
  bool moved = false;
  if (!has_work()) return false;
  const std::uint64_t mail = memory_.mail();
  const bool has_mail = mail != seen_mail_;
  seen_mail_ = mail;
  for (int other = 0; other < memory_.local_size(); ++other) {
    if (other == me_) continue;
    moved |= flush_frames(other);
    if (has_mail) moved |= take_frames(other, news);
    moved |= move_out(other, news);
    moved |= move_in(other, news);
  }
  return moved;
}

bool NodeCarrier::flush_frames(int to) {
  std::deque<Frame>& outbox = peers_[static_cast<std::size_t>(to)].outbox;
  net::ByteRing ring = memory_.frames(me_, to);
  bool moved = false;
  while (!outbox.empty()) {
    // A ring has room for a whole frame or for none.
    if (ring.write(std::as_bytes(std::span(&outbox.front(), 1))) == 0) {
      if (ring.ask_for_room()) break;
      continue;
    }
    outbox.pop_front();
    --waiting_frames_;
    moved = true;
    memory_.note_mail(to);
  }
  return moved;
}

bool NodeCarrier::take_frames(int from, News& news) {
  net::ByteRing ring = memory_.frames(from, me_);
  bool moved = false;
  for (const net::ConstBytes bytes : ring.readable()) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Frame)) {
      Frame frame;
      std::memcpy(&frame, bytes.data() + at, sizeof frame);
      Letter letter{.frame = frame, .from = ranks_[static_cast<std::size_t>(from)]};
      if (frame.kind == Frame::Kind::eager) letter.elements = take_elements(from, frame.bytes());
      news.letters.push_back(std::move(letter));
      moved = true;
    }
    ring.consume(bytes.size());
  }
  if (moved && ring.take_request_for_room()) memory_.ring(from);
  return moved;
}

Payload NodeCarrier::take_elements(int from, std::size_t count) {
  net::ByteRing ring = memory_.data(from, me_);
  Payload elements;
  elements.reserve(count);
  for (const net::ConstBytes bytes : ring.readable()) {
    const auto part = bytes.first(std::min(bytes.size(), count - elements.size()));
    elements.insert(elements.end(), part.begin(), part.end());
  }
  base::check(elements.size() == count, "the elements of an eager send lie behind no others");
  ring.consume(count);
  if (ring.take_request_for_room()) memory_.ring(from);
  return elements;
}

bool NodeCarrier::move_out(int to, News& news) {
  auto& leaving = peers_[static_cast<std::size_t>(to)].leaving;
  if (leaving.empty()) return false;
  net::ByteRing ring = memory_.data(me_, to);
  std::span<const std::byte>& rest = leaving.front();
  const std::size_t count = ring.write(rest.first(std::min(rest.size(), bytes_a_step)));
  if (count == 0) return !ring.ask_for_room();
  news.sent_to.push_back(ranks_[static_cast<std::size_t>(to)]);
  rest = rest.subspan(count);
  if (rest.empty()) {
    leaving.pop_front();
    --transfers_;
  }
  memory_.ring(to);
  return true;
}

bool NodeCarrier::move_in(int from, News& news) {
  auto& coming = peers_[static_cast<std::size_t>(from)].coming;
  if (coming.empty()) return false;
  net::ByteRing ring = memory_.data(from, me_);
  Incoming& first = coming.front();
  bool moved = first.rest.empty();
  std::size_t budget = bytes_a_step;
  for (const net::ConstBytes bytes : ring.readable()) {
    const std::size_t count = std::min({bytes.size(), first.rest.size(), budget});
    if (count == 0) continue;
    std::memcpy(first.rest.data(), bytes.data(), count);
    first.rest = first.rest.subspan(count);
    budget -= count;
    ring.consume(count);
    moved = true;
    if (count < bytes.size()) break;
  }
  if (budget < bytes_a_step) news.received_from.push_back(ranks_[static_cast<std::size_t>(from)]);
  if (first.rest.empty()) {
    news.arrived.push_back(first.call);
    coming.pop_front();
    --transfers_;
  }
  if (moved && ring.take_request_for_room()) memory_.ring(from);
  return moved;
}

std::size_t NodeCarrier::buffer_bytes() const {
  return memory_.reserved_bytes();
}

}  // namespace tutti::p2p
