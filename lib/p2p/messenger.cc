#include "p2p/messenger.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/failure.h"

namespace tutti::p2p {
namespace {

/// The time that the network may take to bring in frames that came while this rank did not look. It
/// is a small part of a short time limit.
SessionTime settling(SessionTime limit) {
  return std::min<SessionTime>(std::chrono::seconds(1), limit / 8);
}

/// How often this rank looks for the first frame of a rank that closes, at least. A rank that gets
/// no processor for a while may look only once in that time.
constexpr int enough_looks = 10;

}  // namespace

Messenger::Messenger(const topology::Topology& topology, SessionTime limit, PairMemory& memory,
                     const BetweenNodes& between_nodes, IsClosing is_closing)
    : topology_(topology),
      endpoint_(topology.rank, topology.size, limit),
      is_closing_(std::move(is_closing)),
      node_(topology.local_ranks(), memory),
      closings_(static_cast<std::size_t>(topology.size)),
      looks_here_(SessionTime{}),
      looks_between_nodes_(settling(limit)) {
  if (between_nodes.communicator != nullptr) remote_.emplace(between_nodes);
}

bool Messenger::is_here(int rank) const {
  return topology_.node_of[static_cast<std::size_t>(rank)] == topology_.node();
}

Carrier& Messenger::carrier(int rank) {
  if (is_here(rank)) return node_;
  return *remote_;
}

void Messenger::open(int rank, Carrier::Use use) {
  if (rank != any_peer) return carrier(rank).open(rank, use);
  for (int each = 0; each < topology_.size; ++each) {
    if (each != topology_.rank) carrier(each).open(each, use);
  }
}

void Messenger::keep(TransferId call, int peer, std::span<std::byte> memory) {
  const bool between_nodes = remote_ && (peer == any_peer || !is_here(peer));
  if (between_nodes) ++waits_between_nodes_;
  data_[call] = {memory, between_nodes};
}

void Messenger::send(SessionTime now, TransferId call, const Envelope& envelope,
                     std::span<const std::byte> data) {
  keep(call, envelope.peer, {const_cast<std::byte*>(data.data()), data.size()});
  endpoint_.pass_time(now);
  endpoint_.send(call, envelope);
  apply();
}

void Messenger::receive(SessionTime now, TransferId call, const Envelope& envelope,
                        std::span<std::byte> data) {
  keep(call, envelope.peer, data);
  endpoint_.pass_time(now);
  endpoint_.receive(call, envelope);
  apply();
}

void Messenger::close(SessionTime now) {
  closing_ = true;
  endpoint_.pass_time(now);
  endpoint_.close();
  apply();
}

bool Messenger::step(SessionTime now) {
  looks_here_.add(now);
  const bool idle = empty() && !closing_ && !(remote_ && remote_->is_sending());
  if (idle && !node_.has_work()) return false;
  endpoint_.pass_time(now);
  // This comes before the frames are read. So all frames that a rank of this node posted before it
  // left are there.
  find_departures(now);
  news_.clear();
  bool moved = node_.step(news_);
  if (remote_ && (!empty() || remote_->is_sending())) {
    looks_between_nodes_.add(now);
    moved |= remote_->step(news_);
  }
  hear();
  endpoint_.give_up_late_calls();
  endpoint_.check_transfers();
  return apply() || moved;
}

void Messenger::find_departures(SessionTime now) {
  departed_.clear();
  if (empty() && !closing_) return;
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (rank == topology_.rank || !is_closing_(rank)) continue;
    const bool needed = endpoint_.needs(rank);
    if (closing_ || needed) departed_.push_back(rank);
    auto& closing = closings_[static_cast<std::size_t>(rank)];
    if (needed && !closing) closing = {now};
    if (closing && closing->looks < enough_looks) ++closing->looks;
  }
}

// The news that a rank of another node closes may overtake its frames. `left` is the last of them.
// A rank to which this one has sent something, and which has not seen that, posts none. So its
// first frame is awaited only for as long as frames may take. The first one may be the answer to an
// eager send.
bool Messenger::may_be_heard(int rank) const {
  if (is_here(rank)) return false;
  if (endpoint_.has_heard(rank)) return true;
  const auto& closing = closings_[static_cast<std::size_t>(rank)];
  if (!closing || !endpoint_.needs(rank)) return false;
  return closing->looks < enough_looks || looks_between_nodes_.before() < closing->found;
}

void Messenger::hear() {
  for (Letter& letter : news_.letters) {
    const int from = letter.from;
    endpoint_.hear(from, letter.frame, std::move(letter.elements), posted_after(from));
    if (letter.frame.kind == Frame::Kind::left && is_here(from)) node_.forget(from);
  }
  for (const int rank : news_.sent_to) endpoint_.note_sent(rank);
  for (const int rank : news_.received_from) endpoint_.note_received(rank);
  for (const TransferId call : news_.arrived) endpoint_.note_arrived(call);
  for (const int rank : departed_) {
    if (may_be_heard(rank)) continue;
    endpoint_.note_departed(rank);
    if (is_here(rank)) node_.forget(rank);
  }
}

// A rank that has left had taken its sends back before.
SessionTime Messenger::posted_after(int from) const {
  if (std::find(departed_.begin(), departed_.end(), from) != departed_.end()) {
    return SessionTime::min();
  }
  return (is_here(from) ? looks_here_ : looks_between_nodes_).before();
}

bool Messenger::apply() {
  std::vector<TransferAction> actions = endpoint_.take_actions();
  for (TransferAction& action : actions) {
    std::visit([this](auto& concrete) { apply(concrete); }, action);
  }
  return !actions.empty();
}

void Messenger::apply(const Post& action) {
  const std::span<const std::byte> elements =
      action.with ? data_.at(*action.with).memory : std::span<std::byte>();
  carrier(action.to).post(action.to, action.frame, elements);
}

void Messenger::apply(const MoveOut& action) {
  carrier(action.to).send(action.to, data_.at(action.call).memory);
}

void Messenger::apply(const MoveIn& action) {
  carrier(action.from).receive(action.from, action.call, data_.at(action.call).memory);
}

void Messenger::apply(const Take& action) {
  const std::span<std::byte> memory = data_.at(action.call).memory;
  base::check(memory.size() == action.elements.size(), "a receive takes a tensor of its own size");
  std::copy(action.elements.begin(), action.elements.end(), memory.begin());
}

void Messenger::apply(TransferDone& action) {
  if (data_.at(action.call).between_nodes) --waits_between_nodes_;
  data_.erase(action.call);
  finished_.push_back(std::move(action));
}

std::size_t Messenger::buffer_bytes() const {
  return node_.buffer_bytes() + (remote_ ? remote_->buffer_bytes() : 0) + endpoint_.kept_bytes();
}

}  // namespace tutti::p2p
