#include "office.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <variant>

namespace tutti::p2p::test {

namespace {

/// Stands for the elements of an eager send: this many bytes, which tell to which call they belong.
Payload elements_of(TransferId call, std::size_t bytes) {
  Payload elements(std::max(bytes, sizeof call));
  std::memcpy(elements.data(), &call, sizeof call);
  return elements;
}

TransferId call_of(const Payload& elements) {
  TransferId call = 0;
  std::memcpy(&call, elements.data(), sizeof call);
  return call;
}

}  // namespace

Office::Office(int size, SessionTime limit, std::uint64_t usual) : usual_(usual) {
  for (int rank = 0; rank < size; ++rank) endpoints_.emplace_back(rank, size, limit);
}

void Office::act(int rank) {
  for (const TransferAction& action : endpoints_[static_cast<std::size_t>(rank)].take_actions()) {
    if (const auto* const post = std::get_if<Post>(&action)) {
      this->post(rank, *post);
    } else if (const auto* const out = std::get_if<MoveOut>(&action)) {
      leaving_[{rank, out->to}].push_back(out->call);
    } else if (const auto* const in = std::get_if<MoveIn>(&action)) {
      coming_[{in->from, rank}].push_back(in->call);
    } else if (const auto* const take = std::get_if<Take>(&action)) {
      got_[take->call] = call_of(take->elements);
    } else {
      const auto& finish = std::get<TransferDone>(action);
      INFO("call " << finish.call);
      CHECK_FALSE(ends_.contains(finish.call));
      ends_.emplace(finish.call, finish);
    }
  }
}

void Office::post(int from, const Post& post) {
  std::deque<Letter>& letters = letters_[{from, post.to}];
  Letter letter{post.frame, {}, now_};
  if (post.with) {
    // A ring of elements has room for it, and holds no others that would come first.
    CHECK(leaving_[{from, post.to}].empty());
    std::size_t bytes = post.frame.bytes();
    for (const Letter& each : letters) bytes += each.elements.empty() ? 0 : each.frame.bytes();
    CHECK(bytes <= EagerSends::most_bytes);
    letter.elements = elements_of(*post.with, post.frame.bytes());
  }
  letters.push_back(std::move(letter));
}

void Office::hear(const Pair& way) {
  std::deque<Letter>& letters = letters_[way];
  Letter letter = std::move(letters.front());
  letters.pop_front();
  Endpoint& endpoint = endpoints_[static_cast<std::size_t>(way.second)];
  endpoint.hear(way.first, letter.frame, std::move(letter.elements), letter.posted);
  CHECK(endpoint.kept_bytes() <= (endpoints_.size() - 1) * EagerSends::most_bytes);
  act(way.second);
}

TransferId Office::send(int from, int to, int tag, std::optional<std::uint64_t> count,
                        DType dtype) {
  const TransferId call = calls_++;
  const Envelope envelope{to, tag, dtype, count.value_or(usual_)};
  endpoints_[static_cast<std::size_t>(from)].send(call, envelope);
  act(from);
  return call;
}

TransferId Office::receive(int by, int from, int tag, std::optional<std::uint64_t> count,
                           DType dtype) {
  const TransferId call = calls_++;
  const Envelope envelope{from, tag, dtype, count.value_or(usual_)};
  endpoints_[static_cast<std::size_t>(by)].receive(call, envelope);
  act(by);
  return call;
}

void Office::close(int rank) {
  endpoints_[static_cast<std::size_t>(rank)].close();
  act(rank);
}

void Office::pass(SessionTime time) {
  now_ += time;
  for (std::size_t rank = 0; rank < endpoints_.size(); ++rank) {
    endpoints_[rank].pass_time(now_);
    endpoints_[rank].give_up_late_calls();
    act(static_cast<int>(rank));
  }
}

void Office::depart(int seen_by, int rank) {
  endpoints_[static_cast<std::size_t>(seen_by)].note_departed(rank);
  act(seen_by);
}

bool Office::deliver(std::mt19937_64& random) {
  std::vector<std::function<void()>> possible;
  for (const auto& [pair, letters] : letters_) {
    if (!letters.empty()) possible.emplace_back([this, way = pair] { hear(way); });
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

void Office::deliver_older() {
  for (const auto& [way, letters] : letters_) {
    while (!letters.empty() && letters.front().posted < now_) hear(way);
  }
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
