#include "office.h"

#include <catch2/catch.hpp>
#include <functional>
#include <variant>

namespace tutti::p2p::test {

Office::Office(int size, Time limit) {
  for (int rank = 0; rank < size; ++rank) endpoints_.emplace_back(rank, size, limit);
}

void Office::act(int rank) {
  for (const Action& action : endpoints_[static_cast<std::size_t>(rank)].take_actions()) {
    if (const auto* const post = std::get_if<Post>(&action)) {
      frames_[{rank, post->to}].push_back(post->frame);
    } else if (const auto* const out = std::get_if<MoveOut>(&action)) {
      leaving_[{rank, out->to}].push_back(out->call);
    } else if (const auto* const in = std::get_if<MoveIn>(&action)) {
      coming_[{in->from, rank}].push_back(in->call);
    } else {
      const auto& finish = std::get<Finish>(action);
      INFO("call " << finish.call);
      CHECK_FALSE(ends_.contains(finish.call));
      ends_.emplace(finish.call, finish);
    }
  }
}

CallId Office::send(int from, int to, int tag, std::uint64_t count, DType dtype) {
  const CallId call = calls_++;
  endpoints_[static_cast<std::size_t>(from)].send(call, {to, tag, dtype, count});
  act(from);
  return call;
}

CallId Office::receive(int by, int from, int tag, std::uint64_t count, DType dtype) {
  const CallId call = calls_++;
  endpoints_[static_cast<std::size_t>(by)].receive(call, {from, tag, dtype, count});
  act(by);
  return call;
}

void Office::close(int rank) {
  endpoints_[static_cast<std::size_t>(rank)].close();
  act(rank);
}

void Office::pass(Time time) {
  now_ += time;
  for (std::size_t rank = 0; rank < endpoints_.size(); ++rank) {
    endpoints_[rank].tick(now_);
    act(static_cast<int>(rank));
  }
}

void Office::depart(int seen_by, int rank) {
  endpoints_[static_cast<std::size_t>(seen_by)].note_departed(rank);
  act(seen_by);
}

bool Office::deliver(std::mt19937_64& random) {
  std::vector<std::function<void()>> possible;
  for (auto& [pair, frames] : frames_) {
    if (frames.empty()) continue;
    possible.emplace_back([this, way = pair, queue = &frames] {
      const Frame frame = queue->front();
      queue->pop_front();
      endpoints_[static_cast<std::size_t>(way.second)].hear(way.first, frame);
      act(way.second);
    });
  }
  for (auto& [pair, coming] : coming_) {
    if (coming.empty() || leaving_[pair].empty()) continue;
    possible.emplace_back([this, way = pair, queue = &coming] {
      got_[queue->front()] = leaving_[way].front();
      leaving_[way].pop_front();
      move_part(way.first, way.second);
      endpoints_[static_cast<std::size_t>(way.second)].note_arrived(queue->front());
      queue->pop_front();
      act(way.second);
    });
  }
  if (possible.empty()) return false;
  possible[random() % possible.size()]();
  return true;
}

void Office::move_part(int from, int to) {
  endpoints_[static_cast<std::size_t>(from)].note_sent(to);
  endpoints_[static_cast<std::size_t>(to)].note_received(from);
}

void Office::deliver_all() {
  std::mt19937_64 random;
  while (deliver(random)) {
  }
}

}  // namespace tutti::p2p::test
