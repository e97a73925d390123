#include "p2p/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "p2p/texts.h"

namespace tutti::p2p {
namespace {

/// Less would fail stores over slow links: megabytes lie in buffers of the system's, so that long
/// after they have left this rank, and long before they come, nothing is seen to move.
constexpr Time shortest_stall = std::chrono::minutes(1);

bool is_for(const Envelope& receive, int from, int tag) {
  return (receive.peer == any_peer || receive.peer == from) && receive.tag == tag;
}

}  // namespace

Endpoint::Endpoint(int rank, int size, Time limit)
    : rank_(rank),
      size_(size),
      limit_(limit),
      stall_limit_(std::max(limit, shortest_stall)),
      peers_(static_cast<std::size_t>(size)) {}

void Endpoint::post(int to, Frame::Kind kind, std::uint64_t number, const Envelope& envelope) {
  peer(to).addressed = true;
  actions_.emplace_back(Post{to,
                             {.kind = kind,
                              .dtype = envelope.dtype,
                              .tag = envelope.tag,
                              .number = number,
                              .count = envelope.count}});
}

void Endpoint::finish(CallId call, int from, std::optional<Error> error) {
  actions_.emplace_back(Finish{call, from, std::move(error)});
}

void Endpoint::send(CallId call, const Envelope& envelope) {
  Send send{.call = call, .envelope = envelope, .since = now_};
  if (closing_) return finish(call, envelope.peer, closed(name_of(send), rank_));
  if (peer(envelope.peer).gone) {
    return finish(call, envelope.peer, gone(name_of(send), envelope.peer));
  }
  send.number = peer(envelope.peer).next_number++;
  post(envelope.peer, Frame::Kind::announce, send.number, envelope);
  sends_.push_back(send);
}

void Endpoint::receive(CallId call, const Envelope& envelope) {
  Receive receive{.call = call, .envelope = envelope, .since = now_};
  if (closing_) return finish(call, any_peer, closed(name_of(receive), rank_));
  const bool hopeless = envelope.peer == any_peer ? !is_anybody_left() : peer(envelope.peer).gone;
  if (hopeless) return finish(call, any_peer, gone(name_of(receive), envelope.peer));
  if (meet_first(receive)) receives_.push_back(receive);
}

bool Endpoint::meet_first(Receive& receive) {
  const Envelope& wanted = receive.envelope;
  if (wanted.peer == any_peer) {
    if (const auto from = given_up_sends_.take_of_any(wanted.tag)) {
      finish_with(receive, *from);
      return false;
    }
  } else if (given_up_sends_.take(wanted.peer, wanted.tag)) {
    finish_with(receive, wanted.peer);
    return false;
  }
  const auto first = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& arrival) {
    return is_for(wanted, arrival.from, arrival.frame.tag);
  });
  if (first == arrivals_.end()) return true;
  const Arrival arrival = *first;
  arrivals_.erase(first);
  return meet(receive, arrival);
}

bool Endpoint::meet(Receive& receive, const Arrival& arrival) {
  const Frame& offered = arrival.frame;
  const Envelope& wanted = receive.envelope;
  if (offered.dtype != wanted.dtype || offered.count != wanted.count) {
    post(arrival.from, Frame::Kind::refuse, offered.number, wanted);
    finish(receive.call, arrival.from,
           mismatch(name_of(receive), rank_, arrival.from,
                    "sends " + text_of(offered.dtype, offered.count)));
    return false;
  }
  receive.from = arrival.from;
  receive.number = offered.number;
  receive.met_at = now_;
  post(arrival.from, Frame::Kind::ready, offered.number);
  return true;
}

void Endpoint::finish_with(const Receive& receive, int from) {
  finish(receive.call, from, given_up(name_of(receive), from, "send", limit_));
}

std::deque<Endpoint::Send>::iterator Endpoint::find_send(int to, std::uint64_t number) {
  return std::find_if(sends_.begin(), sends_.end(), [&](const Send& send) {
    return send.envelope.peer == to && send.number == number;
  });
}

std::deque<Endpoint::Receive>::iterator Endpoint::find_receive(int from, std::uint64_t number) {
  return std::find_if(receives_.begin(), receives_.end(), [&](const Receive& receive) {
    return receive.from == from && receive.number == number;
  });
}

void Endpoint::hear(int from, const Frame& frame) {
  if (peer(from).gone) return;
  peer(from).heard = true;
  switch (frame.kind) {
    case Frame::Kind::announce:
      return hear_announce(from, frame);
    case Frame::Kind::ready:
    case Frame::Kind::refuse:
    case Frame::Kind::expired:
    case Frame::Kind::done:
      return hear_answer(from, frame);
    case Frame::Kind::go: {
      const auto receive = find_receive(from, frame.number);
      base::check(receive != receives_.end(), "elements come for a receive that is ready");
      actions_.emplace_back(MoveIn{from, receive->call});
      return;
    }
    case Frame::Kind::withdraw:
    case Frame::Kind::cancel:
      return hear_revocation(from, frame);
    case Frame::Kind::left:
      return note_departed(from);
  }
  base::report_broken("a frame of a known kind");
}

void Endpoint::hear_announce(int from, const Frame& frame) {
  // Those that were given up were called before those that wait.
  if (given_up_receives_.take(from, frame.tag) || given_up_receives_.take(any_peer, frame.tag)) {
    return post(from, Frame::Kind::expired, frame.number);
  }
  const auto receive =
      std::find_if(receives_.begin(), receives_.end(), [&](const Receive& waiting) {
        return !waiting.has_met() && is_for(waiting.envelope, from, frame.tag);
      });
  if (receive == receives_.end()) {
    arrivals_.push_back({from, frame});
  } else if (!meet(*receive, {from, frame})) {
    receives_.erase(receive);
  }
}

void Endpoint::hear_answer(int from, const Frame& frame) {
  const auto send = find_send(from, frame.number);
  // It was given up when the answer was on its way, and the other rank has been told.
  if (send == sends_.end()) return;
  if (frame.kind == Frame::Kind::ready) {
    send->met_at = now_;
    post(from, Frame::Kind::go, send->number);
    actions_.emplace_back(MoveOut{from, send->call});
    return;
  }
  if (frame.kind == Frame::Kind::refuse) {
    finish(send->call, from,
           mismatch(name_of(*send), rank_, from, "receives " + text_of(frame.dtype, frame.count)));
  } else if (frame.kind == Frame::Kind::expired) {
    finish(send->call, from, given_up(name_of(*send), from, "recv", limit_));
  } else {
    finish(send->call, from);
  }
  sends_.erase(send);
  leave_if_done();
}

void Endpoint::hear_revocation(int from, const Frame& frame) {
  const bool withdrawn = frame.kind == Frame::Kind::withdraw;
  const auto arrival = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& each) {
    return each.from == from && each.frame.number == frame.number;
  });
  if (arrival != arrivals_.end()) {
    if (withdrawn) given_up_sends_.add(from, arrival->frame.tag);
    arrivals_.erase(arrival);
    return;
  }
  const auto receive = find_receive(from, frame.number);
  // This rank has ended it already, and the answer is on its way.
  if (receive == receives_.end()) return;
  receive->from = any_peer;
  if (withdrawn) {
    finish_with(*receive, from);
  } else if (closing_) {
    finish(receive->call, any_peer, closed(name_of(*receive), rank_));
  } else if (meet_first(*receive)) {
    // It waits for another send, as if that one had never been announced: its rank closes.
    return;
  }
  receives_.erase(receive);
  leave_if_done();
}

void Endpoint::note_arrived(CallId call) {
  const auto receive = std::find_if(receives_.begin(), receives_.end(),
                                    [&](const Receive& each) { return each.call == call; });
  base::check(receive != receives_.end() && receive->has_met(), "a receive has met its send");
  post(receive->from, Frame::Kind::done, receive->number);
  finish(call, receive->from);
  receives_.erase(receive);
  leave_if_done();
}

void Endpoint::note_departed(int rank) {
  if (std::exchange(peer(rank).gone, true)) return;
  std::erase_if(arrivals_, [&](const Arrival& arrival) { return arrival.from == rank; });
  given_up_sends_.forget(rank);
  given_up_receives_.forget(rank);
  std::erase_if(sends_, [&](const Send& send) {
    if (send.envelope.peer != rank) return false;
    finish(send.call, rank, gone(name_of(send), rank));
    return true;
  });
  const bool alone = !is_anybody_left();
  std::erase_if(receives_, [&](const Receive& receive) {
    const bool hopeless = receive.has_met() ? receive.from == rank
                                            : receive.envelope.peer == rank ||
                                                  (receive.envelope.peer == any_peer && alone);
    if (hopeless) finish(receive.call, rank, gone(name_of(receive), rank));
    return hopeless;
  });
  leave_if_done();
}

bool Endpoint::is_anybody_left() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !peer(rank).gone) return true;
  }
  return false;
}

void Endpoint::close() {
  closing_ = true;
  std::erase_if(sends_, [&](const Send& send) {
    if (send.met_at) return false;
    post(send.envelope.peer, Frame::Kind::cancel, send.number);
    finish(send.call, send.envelope.peer, closed(name_of(send), rank_));
    return true;
  });
  std::erase_if(receives_, [&](const Receive& receive) {
    if (receive.has_met()) return false;
    finish(receive.call, any_peer, closed(name_of(receive), rank_));
    return true;
  });
  leave_if_done();
}

void Endpoint::leave_if_done() {
  if (!closing_ || left_ || !empty()) return;
  left_ = true;
  for (int rank = 0; rank < size_; ++rank) {
    if (peer(rank).addressed && !peer(rank).gone) post(rank, Frame::Kind::left, 0);
  }
}

void Endpoint::tick(Time now) {
  now_ = now;
  // The oldest stand first.
  for (auto send = sends_.begin(); send != sends_.end() && send->since + limit_ <= now_;) {
    if (send->met_at) {
      ++send;
      continue;
    }
    post(send->envelope.peer, Frame::Kind::withdraw, send->number);
    finish(send->call, send->envelope.peer,
           late(name_of(*send), send->envelope.peer, "recv", limit_));
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
}

// The transfers between two ranks move one after the other, so those that wait for their turn are
// as late as the one that moves.
Time Endpoint::due(const Send& send) const {
  if (!send.met_at) return send.since + limit_;
  return std::max(*send.met_at, peer(send.envelope.peer).sent_at) + stall_limit_;
}

Time Endpoint::due(const Receive& receive) const {
  if (!receive.has_met()) return receive.since + limit_;
  return std::max(receive.met_at, peer(receive.from).received_at) + stall_limit_;
}

void Endpoint::check_transfers() const {
  // The oldest stand first, and none has met before it was called.
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

std::optional<Time> Endpoint::next_tick() const {
  std::optional<Time> next;
  const auto consider = [&](Time due) { next = next ? std::min(*next, due) : due; };
  // Those behind the first that has not met were called later, so they are due later.
  for (const Send& send : sends_) {
    consider(due(send));
    if (!send.met_at) break;
  }
  for (const Receive& receive : receives_) {
    consider(due(receive));
    if (!receive.has_met()) break;
  }
  return next;
}

std::string Endpoint::name_of(const Send& send) const {
  return text_of_send(rank_, send.envelope);
}

std::string Endpoint::name_of(const Receive& receive) const {
  return text_of_receive(rank_, receive.envelope, receive.from);
}

std::string Endpoint::describe() const {
  std::string text;
  const auto add = [&](const std::string& call, bool met) {
    text += (text.empty() ? "" : ", ") + call + (met ? " moves" : " waits");
  };
  for (const Send& send : sends_) add(name_of(send), send.met_at.has_value());
  for (const Receive& receive : receives_) add(name_of(receive), receive.has_met());
  return text.empty() ? "no send or recv" : text;
}

std::vector<Action> Endpoint::take_actions() {
  return std::exchange(actions_, {});
}

bool Endpoint::needs(int rank) const {
  const auto sends_there = [&](const Send& send) { return send.envelope.peer == rank; };
  const auto receives_there = [&](const Receive& receive) {
    if (receive.has_met()) return receive.from == rank;
    return receive.envelope.peer == any_peer || receive.envelope.peer == rank;
  };
  return std::any_of(sends_.begin(), sends_.end(), sends_there) ||
         std::any_of(receives_.begin(), receives_.end(), receives_there);
}

}  // namespace tutti::p2p
