// The part of an endpoint that deals with time: it finds calls that wait too long.
#include <algorithm>

#include "p2p/endpoint.h"
#include "p2p/texts.h"

namespace tutti::p2p {
namespace {

/// The time that a rank which closes waits to hear whether an eager send has met. A receiver that
/// listens answers in microseconds. A receiver on another node may not listen for long.
constexpr SessionTime longest_farewell = std::chrono::seconds(1);

}  // namespace

// The oldest calls stand first. But if this rank closes, the sends that it has taken back end
// sooner.
void Endpoint::give_up_late_calls() {
  for (auto send = sends_.begin();
       send != sends_.end() && (closing_ || send->since + limit_ <= now_);) {
    if (send->met_at || due(*send) > now_) {
      ++send;
      continue;
    }
    give_up(*send);
    send = sends_.erase(send);
  }
  for (auto receive = receives_.begin();
       receive != receives_.end() && receive->since + limit_ <= now_;) {
    if (receive->has_met()) {
      ++receive;
      continue;
    }
    finish(receive->call, any_peer,
           late(name_of(*receive), receive->envelope.peer, "send", limit_));
    given_up_receives_.add(receive->envelope.peer, receive->envelope.tag);
    receive = receives_.erase(receive);
  }
  leave_if_done();
}

void Endpoint::give_up(const Send& send) {
  const int to = send.envelope.peer;
  if (send.cancelled_at) return finish(send.call, to, closed(name_of(send), rank_));
  post(to, Frame::Kind::withdraw, send.number);
  finish(send.call, to, late(name_of(send), to, "recv", limit_));
}

// The transfers between two ranks move one after the other. So those that wait for their turn are
// as late as the one that moves.
SessionTime Endpoint::due(const Send& send) const {
  if (send.met_at) return std::max(*send.met_at, peer(send.envelope.peer).sent_at) + stall_limit_;
  if (send.cancelled_at) {
    return std::min(send.since + limit_, *send.cancelled_at + longest_farewell);
  }
  return send.since + limit_;
}

SessionTime Endpoint::due(const Receive& receive) const {
  if (!receive.has_met()) return receive.since + limit_;
  return std::max(receive.met_at, peer(receive.from).received_at) + stall_limit_;
}

void Endpoint::check_transfers() const {
  // The oldest sends stand first, and none has met before it was called.
  for (const Send& send : sends_) {
    if (send.since + stall_limit_ > now_) break;
    if (send.met_at && due(send) <= now_) {
      throw stalled(name_of(send), send.envelope.peer, stall_limit_);
    }
  }
  for (const Receive& receive : receives_) {
    if (receive.since + stall_limit_ > now_) break;
    if (receive.has_met() && due(receive) <= now_) {
      throw stalled(name_of(receive), receive.from, stall_limit_);
    }
  }
}

std::optional<SessionTime> Endpoint::next_tick() const {
  std::optional<SessionTime> next;
  const auto consider = [&](SessionTime due) { next = next ? std::min(*next, due) : due; };
  // The sends behind the first one that has not met were called later, so they are due later.
  for (const Send& send : sends_) {
    consider(due(send));
    if (!send.met_at && !send.cancelled_at) break;
  }
  for (const Receive& receive : receives_) {
    consider(due(receive));
    if (!receive.has_met()) break;
  }
  return next;
}

}  // namespace tutti::p2p
