#include "p2p/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "p2p/texts.h"

namespace tutti::p2p {
namespace {

/// A shorter limit would fail stores over slow links. Megabytes lie in buffers of the system. So
/// nothing is seen to move long after they have left this rank, and long before they arrive.
constexpr SessionTime shortest_stall = std::chrono::minutes(1);

bool is_for(const Envelope& receive, int from, int tag) {
  return (receive.peer == any_peer || receive.peer == from) && receive.tag == tag;
}

}  // namespace

Endpoint::Endpoint(int rank, int size, SessionTime limit)
    : rank_(rank),
      size_(size),
      limit_(limit),
      stall_limit_(std::max(limit, shortest_stall)),
      peers_(static_cast<std::size_t>(size)),
      eager_sends_(size) {}

void Endpoint::post(int to, Frame::Kind kind, std::uint64_t number, const Envelope& envelope) {
  peer(to).addressed = true;
  actions_.emplace_back(Post{.frame = {.kind = kind,
                                       .dtype = envelope.dtype,
                                       .tag = envelope.tag,
                                       .number = number,
                                       .count = envelope.count},
                             .to = to});
}

void Endpoint::finish(TransferId call, int from, std::optional<Error> error) {
  actions_.emplace_back(TransferDone{call, from, std::move(error)});
}

void Endpoint::send(TransferId call, const Envelope& envelope) {
  Send send{.call = call, .envelope = envelope, .since = now_};
  if (closing_) return finish(call, envelope.peer, closed(name_of(send), rank_));
  if (peer(envelope.peer).gone) {
    return finish(call, envelope.peer, gone(name_of(send), envelope.peer));
  }
  send.number = peer(envelope.peer).next_number++;
  send.eager = may_be_eager(envelope);
  post(envelope.peer, send.eager ? Frame::Kind::eager : Frame::Kind::announce, send.number,
       envelope);
  if (send.eager) {
    std::get<Post>(actions_.back()).with = call;
    eager_sends_.add(envelope.peer, send.number, envelope.bytes());
  }
  sends_.push_back(send);
}

// Whether the send may be eager. Elements that already move would hold up those of an eager send
// while its time limit passes.
bool Endpoint::may_be_eager(const Envelope& envelope) const {
  return peer(envelope.peer).moving == 0 && eager_sends_.has_room(envelope.peer, envelope.bytes());
}

void Endpoint::receive(TransferId call, const Envelope& envelope) {
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
  return first == arrivals_.end() || meet(receive, take(first));
}

Endpoint::Arrival Endpoint::take(const std::deque<Arrival>::iterator& arrival) {
  Arrival taken = std::move(*arrival);
  arrivals_.erase(arrival);
  kept_bytes_ -= taken.elements.size();
  return taken;
}

bool Endpoint::is_recent(const Arrival& arrival) const {
  return arrival.posted_after + limit_ / 2 >= now_;
}

bool Endpoint::meet(Receive& receive, Arrival arrival) {
  const Frame& offered = arrival.frame;
  const Envelope& wanted = receive.envelope;
  if (offered.dtype != wanted.dtype || offered.count != wanted.count) {
    post(arrival.from, Frame::Kind::refuse, offered.number, wanted);
    finish(receive.call, arrival.from,
           mismatch(name_of(receive), rank_, arrival.from,
                    "sends " + text_of(offered.dtype, offered.count)));
    return false;
  }
  const bool eager = offered.kind == Frame::Kind::eager;
  if (eager && is_recent(arrival)) {
    give(receive, arrival.from, offered.number, std::move(arrival.elements));
    return false;
  }
  receive.from = arrival.from;
  receive.number = offered.number;
  receive.met_at = now_;
  if (eager) receive.elements = std::move(arrival.elements);
  post(arrival.from, Frame::Kind::ready, offered.number);
  return true;
}

void Endpoint::give(const Receive& receive, int from, std::uint64_t number, Payload elements) {
  actions_.emplace_back(Take{receive.call, std::move(elements)});
  post(from, Frame::Kind::done, number);
  finish(receive.call, from);
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

void Endpoint::hear(int from, const Frame& frame, Payload elements, SessionTime posted_after) {
  if (peer(from).gone) return;
  peer(from).heard = true;
  switch (frame.kind) {
    case Frame::Kind::announce:
    case Frame::Kind::eager:
      return hear_send({from, frame, std::move(elements), posted_after});
    case Frame::Kind::ready:
    case Frame::Kind::refuse:
    case Frame::Kind::expired:
    case Frame::Kind::dropped:
    case Frame::Kind::done:
      return hear_answer(from, frame);
    case Frame::Kind::go:
      return hear_go(from, frame);
    case Frame::Kind::withdraw:
    case Frame::Kind::cancel:
      return hear_revocation(from, frame);
    case Frame::Kind::left:
      return note_departed(from);
  }
  base::report_broken("a frame of a known kind");
}

void Endpoint::hear_send(Arrival arrival) {
  const int from = arrival.from;
  const int tag = arrival.frame.tag;
  // The receives that were given up were called before those that wait.
  if (given_up_receives_.take(from, tag) || given_up_receives_.take(any_peer, tag)) {
    return post(from, Frame::Kind::expired, arrival.frame.number);
  }
  const auto receive =
      std::find_if(receives_.begin(), receives_.end(), [&](const Receive& waiting) {
        return !waiting.has_met() && is_for(waiting.envelope, from, tag);
      });
  if (receive == receives_.end()) {
    kept_bytes_ += arrival.elements.size();
    arrivals_.push_back(std::move(arrival));
  } else if (!meet(*receive, std::move(arrival))) {
    receives_.erase(receive);
  }
}

void Endpoint::hear_go(int from, const Frame& frame) {
  const auto receive = find_receive(from, frame.number);
  base::check(receive != receives_.end(), "elements come for a receive that is ready");
  if (!receive->elements) {
    actions_.emplace_back(MoveIn{from, receive->call});
    return;
  }
  give(*receive, from, receive->number, std::move(*receive->elements));
  receives_.erase(receive);
  leave_if_done();
}

void Endpoint::hear_ready(Send& send) {
  // The receiver hears that this rank took the send back.
  if (send.cancelled_at) return;
  send.met_at = now_;
  const int to = send.envelope.peer;
  post(to, Frame::Kind::go, send.number);
  if (send.eager) return;
  ++peer(to).moving;
  actions_.emplace_back(MoveOut{to, send.call});
}

void Endpoint::hear_answer(int from, const Frame& frame) {
  if (frame.kind != Frame::Kind::ready) eager_sends_.note_answered(from, frame.number);
  const auto send = find_send(from, frame.number);
  // The send was given up while the answer was on its way, and the other rank has been told.
  if (send == sends_.end()) return;
  if (frame.kind == Frame::Kind::ready) return hear_ready(*send);
  if (frame.kind == Frame::Kind::refuse) {
    finish(send->call, from,
           mismatch(name_of(*send), rank_, from, "receives " + text_of(frame.dtype, frame.count)));
  } else if (frame.kind == Frame::Kind::expired) {
    finish(send->call, from, given_up(name_of(*send), from, "recv", limit_));
  } else if (frame.kind == Frame::Kind::dropped) {
    finish(send->call, from, closed(name_of(*send), rank_));
  } else {
    if (!send->eager) --peer(from).moving;
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
    const Frame::Kind kind = take(arrival).frame.kind;
    if (kind == Frame::Kind::eager) post(from, Frame::Kind::dropped, frame.number);
    return;
  }
  const auto receive = find_receive(from, frame.number);
  // This rank has already ended the receive, and the answer is on its way.
  if (receive == receives_.end()) return;
  receive->from = any_peer;
  if (receive->elements) post(from, Frame::Kind::dropped, frame.number);
  receive->elements.reset();
  if (withdrawn) {
    finish_with(*receive, from);
  } else if (closing_) {
    finish(receive->call, any_peer, closed(name_of(*receive), rank_));
  } else if (meet_first(*receive)) {
    // The receive waits for another send now. It is as if the one that it met had never been
    // announced, because the rank of that one closes.
    return;
  }
  receives_.erase(receive);
  leave_if_done();
}

void Endpoint::note_arrived(TransferId call) {
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
  std::erase_if(arrivals_, [&](const Arrival& arrival) {
    if (arrival.from != rank) return false;
    kept_bytes_ -= arrival.elements.size();
    return true;
  });
  given_up_sends_.forget(rank);
  given_up_receives_.forget(rank);
  std::erase_if(sends_, [&](const Send& send) {
    if (send.envelope.peer != rank) return false;
    finish(send.call, rank,
           send.cancelled_at ? closed(name_of(send), rank_) : gone(name_of(send), rank));
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
  std::erase_if(sends_, [&](Send& send) {
    if (send.met_at) return false;
    post(send.envelope.peer, Frame::Kind::cancel, send.number);
    // The receiver may already have the elements, and its answer may be on its way.
    if (send.eager) send.cancelled_at = now_;
    if (send.eager) return false;
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

std::string Endpoint::name_of(const Send& send) const {
  return text_of_send(rank_, send.envelope);
}

std::string Endpoint::name_of(const Receive& receive) const {
  return text_of_receive(rank_, receive.envelope, receive.from);
}

std::string Endpoint::describe() const {
  std::string text;
  const auto add = [&](const std::string& call, bool met, const char* other) {
    text += (text.empty() ? "" : ", ") + call + (met ? " moves" : other);
  };
  for (const Send& send : sends_)
    add(name_of(send), send.met_at.has_value(), " waits for the recv");
  for (const Receive& receive : receives_) {
    add(name_of(receive), receive.has_met(), " waits for the send");
  }
  return text.empty() ? "no send or recv" : text;
}

std::vector<TransferAction> Endpoint::take_actions() {
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
