#include "p2p/messenger.h"

#include <utility>
#include <variant>

namespace tutti::p2p {

Messenger::Messenger(const topology::Topology& topology, Time limit, PairMemory& memory,
                     const BetweenNodes& between_nodes, IsClosing is_closing)
    : topology_(topology),
      endpoint_(topology.rank, topology.size, limit),
      is_closing_(std::move(is_closing)),
      node_(topology.local_ranks(), memory) {
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

void Messenger::keep(CallId call, int peer, std::span<std::byte> memory) {
  const bool between_nodes = remote_ && (peer == any_peer || !is_here(peer));
  if (between_nodes) ++waits_between_nodes_;
  data_[call] = {memory, between_nodes};
}

void Messenger::send(Time now, CallId call, const Envelope& envelope,
                     std::span<const std::byte> data) {
  keep(call, envelope.peer, {const_cast<std::byte*>(data.data()), data.size()});
  endpoint_.tick(now);
  endpoint_.send(call, envelope);
  apply();
}

void Messenger::receive(Time now, CallId call, const Envelope& envelope,
                        std::span<std::byte> data) {
  keep(call, envelope.peer, data);
  endpoint_.tick(now);
  endpoint_.receive(call, envelope);
  apply();
}

void Messenger::close() {
  closing_ = true;
  endpoint_.close();
  apply();
}

bool Messenger::step(Time now) {
  const bool idle = empty() && !closing_ && !(remote_ && remote_->is_sending());
  if (idle && !node_.has_work()) return false;
  endpoint_.tick(now);
  // Before the frames are read: what a rank of this node posted before it left is then there.
  find_departures();
  news_.clear();
  bool moved = node_.step(news_);
  if (remote_ && (!empty() || remote_->is_sending())) moved |= remote_->step(news_);
  hear();
  endpoint_.check_transfers();
  return apply() || moved;
}

void Messenger::find_departures() {
  departed_.clear();
  if (empty() && !closing_) return;
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (rank == topology_.rank || !is_closing_(rank)) continue;
    if (closing_ || endpoint_.needs(rank)) departed_.push_back(rank);
  }
}

void Messenger::hear() {
  for (const auto& [from, frame] : news_.frames) {
    endpoint_.hear(from, frame);
    if (frame.kind == Frame::Kind::left && is_here(from)) node_.forget(from);
  }
  for (const int rank : news_.sent_to) endpoint_.note_sent(rank);
  for (const int rank : news_.received_from) endpoint_.note_received(rank);
  for (const CallId call : news_.arrived) endpoint_.note_arrived(call);
  for (const int rank : departed_) {
    // Of another node frames may still be on their way, and `left` is the last of them.
    if (!is_here(rank) && endpoint_.has_heard(rank)) continue;
    endpoint_.note_departed(rank);
    if (is_here(rank)) node_.forget(rank);
  }
}

bool Messenger::apply() {
  std::vector<Action> actions = endpoint_.take_actions();
  for (Action& action : actions) {
    std::visit([this](auto& concrete) { apply(concrete); }, action);
  }
  return !actions.empty();
}

void Messenger::apply(const Post& action) {
  carrier(action.to).post(action.to, action.frame);
}

void Messenger::apply(const MoveOut& action) {
  carrier(action.to).send(action.to, data_.at(action.call).memory);
}

void Messenger::apply(const MoveIn& action) {
  carrier(action.from).receive(action.from, action.call, data_.at(action.call).memory);
}

void Messenger::apply(Finish& action) {
  if (data_.at(action.call).between_nodes) --waits_between_nodes_;
  data_.erase(action.call);
  finished_.push_back(std::move(action));
}

std::size_t Messenger::buffer_bytes() const {
  return node_.buffer_bytes() + (remote_ ? remote_->buffer_bytes() : 0);
}

}  // namespace tutti::p2p
