#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "p2p/messenger.h"
#include "p2p/node_carrier.h"

using namespace tutti;
using namespace tutti::p2p;

namespace {

/// The carriers of two ranks of a node, which share one mapping.
class Node {
 public:
  Node() {
    base::Fd file = base::create_memory_file("pairs", PairMemory::bytes(2));
    std::shared_ptr<base::Mapping> mapping =
        std::make_shared<base::Mapping>(file, PairMemory::bytes(2));
    for (int rank = 0; rank < 2; ++rank) {
      memories_.push_back(std::make_unique<PairMemory>(
          file.duplicate(), [&mapping](const base::Fd&, std::size_t) { return mapping; }, rank,
          std::vector<base::Doorbell*>{&bells_[0], &bells_[1]}));
      carriers_.push_back(std::make_unique<NodeCarrier>(std::vector<int>{0, 1}, *memories_.back()));
    }
    carriers_[0]->open(1, Carrier::Use::send);
    carriers_[1]->open(0, Carrier::Use::send);
  }

  NodeCarrier& operator[](std::size_t rank) { return *carriers_[rank]; }
  base::Doorbell& bell(std::size_t rank) { return bells_[rank]; }
  PairMemory& memory(std::size_t rank) { return *memories_[rank]; }

 private:
  std::array<base::Doorbell, 2> bells_;
  std::vector<std::unique_ptr<PairMemory>> memories_;
  std::vector<std::unique_ptr<NodeCarrier>> carriers_;
};

std::span<std::byte> bytes_of(std::vector<std::uint32_t>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

std::vector<std::uint32_t> counting(std::size_t count, std::uint32_t first) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

}  // namespace

TEST_CASE(
    "elements pass through a ring that is smaller than they are, one transfer after another") {
  Node node;
  std::vector<std::uint32_t> first = counting(100'003, 7);
  std::vector<std::uint32_t> second = counting(5, 1);
  std::vector<std::uint32_t> got_first(first.size());
  std::vector<std::uint32_t> got_second(second.size());
  node[0].send(1, bytes_of(first));
  node[0].send(1, {});
  node[0].send(1, bytes_of(second));
  node[1].receive(0, 1, bytes_of(got_first));
  node[1].receive(0, 2, {});
  node[1].receive(0, 3, bytes_of(got_second));
  News news;
  bool moved = true;
  while (moved) {
    moved = node[0].step(news);
    moved |= node[1].step(news);
  }
  CHECK(news.arrived == std::vector<TransferId>{1, 2, 3});
  CHECK(got_first == first);
  CHECK(got_second == second);
  CHECK_FALSE(node[0].is_moving());
  CHECK_FALSE(node[1].is_moving());
}

TEST_CASE(
    "elements of eager sends come with their frames, between transfers and across a ring's end") {
  Node node;
  std::vector<std::uint32_t> numbers = counting(40'000, 7);
  std::vector<std::uint32_t> got(numbers.size());
  News news;
  for (std::size_t round = 0; round < 40; ++round) {
    std::vector<std::size_t> counts{1, 4096, 0, 100 * round + 3};
    news.clear();
    for (const std::size_t count : counts) {
      const Frame frame{.kind = Frame::Kind::eager, .dtype = DType::i32, .count = count};
      node[0].post(1, frame, bytes_of(numbers).first(count * 4));
    }
    node[0].send(1, bytes_of(numbers));
    for (std::size_t look = 0; news.letters.size() < counts.size(); ++look) {
      REQUIRE(look < 100);
      node[1].step(news);
      node[0].step(news);
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto sent = bytes_of(numbers).first(counts[i] * 4);
      CHECK(news.letters[i].elements == Payload(sent.begin(), sent.end()));
    }
    node[1].receive(0, round, bytes_of(got));
    while (node[0].is_moving() || node[1].is_moving()) {
      node[0].step(news);
      node[1].step(news);
    }
    REQUIRE(got == numbers);
    got.assign(got.size(), 0);
  }
}

TEST_CASE("frames that find no room wait for it, and arrive in order") {
  Node node;
  constexpr std::uint64_t frames = 1000;
  for (std::uint64_t i = 0; i < frames; ++i) node[0].post(1, {.number = i}, {});
  CHECK(node[0].has_outbox());
  News news;
  bool moved = true;
  while (moved) {
    moved = node[1].step(news);
    moved |= node[0].step(news);
  }
  CHECK_FALSE(node[0].has_outbox());
  REQUIRE(news.letters.size() == frames);
  for (std::uint64_t i = 0; i < frames; ++i) CHECK(news.letters[i].frame.number == i);
}

TEST_CASE("a rank that sleeps on its doorbell is woken for frames, elements and room") {
  Node node;
  std::vector<std::uint32_t> numbers = counting(300'000, 1);
  std::vector<std::uint32_t> got(numbers.size());
  const auto run = [&](std::size_t rank, const std::function<bool(const News&)>& is_over) {
    News news;
    const auto deadline = base::Clock::now() + std::chrono::seconds(60);
    while (!is_over(news) && base::Clock::now() < deadline) {
      const std::uint32_t ticket = node.bell(rank).ticket();
      if (!node[rank].step(news) && !is_over(news)) node.bell(rank).wait(ticket, deadline);
    }
    return is_over(news);
  };
  bool sent = false;
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < 500; ++i) node[0].post(1, {.number = i}, {});
    node[0].send(1, bytes_of(numbers));
    sent = run(0, [&](const News&) { return !node[0].has_outbox() && !node[0].is_moving(); });
  });
  node[1].receive(0, 1, bytes_of(got));
  CHECK(
      run(1, [](const News& news) { return news.letters.size() == 500 && !news.arrived.empty(); }));
  sender.join();
  CHECK(sent);
  CHECK(got == numbers);
}

TEST_CASE("a call waits for its whole time, however long nothing has happened before it") {
  using std::chrono::seconds;
  Node node;
  const auto topology = topology::make_topology(0, std::vector<int>{0, 0});
  Messenger messenger(topology, seconds(10), node.memory(0), BetweenNodes{},
                      [](int) { return false; });
  messenger.step(seconds(1));
  std::vector<std::uint32_t> numbers(5);
  messenger.send(seconds(3600), 7, {.peer = 1, .count = 5}, bytes_of(numbers));
  messenger.step(seconds(3609));
  CHECK(messenger.take_finished().empty());
  messenger.step(seconds(3610));
  const std::vector<TransferDone> finished = messenger.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].call == 7);
  CHECK(finished[0].error->code() == ErrorCode::timeout);
  CHECK(messenger.empty());
}

TEST_CASE(
    "a transfer may take longer than the time limit while it moves, but may not stand still") {
  using std::chrono::seconds;
  Node node;
  const std::vector<int> leaders{0, 0};
  const auto first = topology::make_topology(0, leaders);
  const auto second = topology::make_topology(1, leaders);
  const auto never = [](int) { return false; };
  Messenger sender(first, seconds(100), node.memory(0), BetweenNodes{}, never);
  Messenger receiver(second, seconds(100), node.memory(1), BetweenNodes{}, never);
  std::vector<std::uint32_t> numbers = counting(300'000, 3);
  std::vector<std::uint32_t> got(numbers.size());
  const Envelope to{.peer = 1, .count = numbers.size()};
  const Envelope from{.peer = 0, .count = numbers.size()};
  SessionTime now{};
  sender.send(now, 1, to, bytes_of(numbers));
  receiver.receive(now, 1, from, bytes_of(got));
  while (!sender.empty()) {
    now += seconds(40);
    sender.step(now);
    receiver.step(now);
  }
  CHECK(now > seconds(400));
  CHECK(got == numbers);
  sender.send(now, 2, to, bytes_of(numbers));
  receiver.receive(now, 2, from, bytes_of(got));
  for (int turn = 0; turn < 4; ++turn) {
    sender.step(now);
    receiver.step(now);
  }
  REQUIRE(receiver.is_moving());
  // The receiver takes everything that has been sent, and no more comes.
  while (receiver.step(now)) {
  }
  CHECK_FALSE(receiver.step(now + seconds(90)));
  CHECK(receiver.next_tick() == now + seconds(100));
  CHECK_THROWS_AS(receiver.step(now + seconds(100)), Error);
  // The sender fills the ring, and nobody takes anything out.
  while (sender.step(now + seconds(50))) {
  }
  CHECK_FALSE(sender.step(now + seconds(140)));
  CHECK_THROWS_AS(sender.step(now + seconds(150)), Error);
}

TEST_CASE("a small tensor takes one look of its receiver and one of its sender") {
  using std::chrono::seconds;
  Node node;
  const std::vector<int> leaders{0, 0};
  const auto first = topology::make_topology(0, leaders);
  const auto second = topology::make_topology(1, leaders);
  const auto never = [](int) { return false; };
  Messenger sender(first, seconds(10), node.memory(0), BetweenNodes{}, never);
  Messenger receiver(second, seconds(10), node.memory(1), BetweenNodes{}, never);
  std::vector<std::uint32_t> numbers = counting(1000, 3);
  std::vector<std::uint32_t> got(1000);
  receiver.receive(seconds(0), 1, {.peer = 0, .count = 1000}, bytes_of(got));
  sender.send(seconds(0), 2, {.peer = 1, .count = 1000}, bytes_of(numbers));
  CHECK_FALSE(sender.is_moving());
  numbers.assign(1000, 0);
  receiver.step(seconds(0));
  CHECK(receiver.empty());
  CHECK(got == counting(1000, 3));
  CHECK_FALSE(sender.empty());
  sender.step(seconds(0));
  CHECK(sender.empty());
  // The receiver keeps the elements while no receive waits, and counts them.
  const std::size_t before = receiver.buffer_bytes();
  sender.send(seconds(0), 3, {.peer = 1, .count = 1000}, bytes_of(numbers));
  receiver.step(seconds(0));
  CHECK(receiver.buffer_bytes() == before + 4000);
  receiver.receive(seconds(0), 4, {.peer = 0, .count = 1000}, bytes_of(got));
  CHECK(receiver.buffer_bytes() == before);
  CHECK(got == numbers);
}

TEST_CASE(
    "a rank that sleeps until there is room for elements is woken when eager ones are taken") {
  Node node;
  std::vector<std::uint32_t> numbers = counting(40'000, 7);
  const Frame frame{.kind = Frame::Kind::eager, .dtype = DType::i32, .count = 4096};
  node[0].post(1, frame, bytes_of(numbers).first(std::size_t{4096} * 4));
  node[0].send(1, bytes_of(numbers));
  News news;
  while (node[0].step(news)) {
  }
  const std::uint32_t ticket = node.bell(0).ticket();
  node[1].step(news);
  CHECK(node.bell(0).ticket() != ticket);
}

TEST_CASE("a small send that a rank took back before it left is not taken") {
  using std::chrono::seconds;
  Node node;
  const std::vector<int> leaders{0, 0};
  const auto first = topology::make_topology(0, leaders);
  const auto second = topology::make_topology(1, leaders);
  Messenger sender(first, seconds(10), node.memory(0), BetweenNodes{}, [](int) { return false; });
  Messenger receiver(second, seconds(10), node.memory(1), BetweenNodes{}, [](int) { return true; });
  std::vector<std::uint32_t> numbers(5);
  sender.send(seconds(0), 1, {.peer = 1, .count = 5}, bytes_of(numbers));
  sender.close(seconds(0));
  sender.step(seconds(1));
  CHECK(sender.has_left());
  CHECK(sender.take_finished().at(0).error->code() == ErrorCode::aborted);
  receiver.receive(seconds(1), 2, {.peer = 0, .count = 5}, bytes_of(numbers));
  receiver.step(seconds(1));
  const std::vector<TransferDone> finished = receiver.take_finished();
  REQUIRE(finished.size() == 1);
  REQUIRE(finished[0].error);
  CHECK(finished[0].error->code() == ErrorCode::aborted);
}

TEST_CASE("a rank that was held up does not take a small send that was given up meanwhile") {
  using std::chrono::seconds;
  Node node;
  const std::vector<int> leaders{0, 0};
  const auto first = topology::make_topology(0, leaders);
  const auto second = topology::make_topology(1, leaders);
  const auto never = [](int) { return false; };
  Messenger sender(first, seconds(10), node.memory(0), BetweenNodes{}, never);
  Messenger receiver(second, seconds(20), node.memory(1), BetweenNodes{}, never);
  std::vector<std::uint32_t> numbers(5);
  receiver.receive(seconds(0), 1, {.peer = 0, .count = 5}, bytes_of(numbers));
  sender.send(seconds(0), 2, {.peer = 1, .count = 5}, bytes_of(numbers));
  sender.step(seconds(10));
  CHECK(sender.empty());
  receiver.step(seconds(11));
  const std::vector<TransferDone> finished = receiver.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].error->code() == ErrorCode::timeout);
}

TEST_CASE("a rank that has departed ends the calls that wait for it, but not before its frames") {
  using std::chrono::seconds;
  Node node;
  const std::vector<int> leaders{0, 0};
  const auto first = topology::make_topology(0, leaders);
  const auto second = topology::make_topology(1, leaders);
  bool departed = false;
  Messenger sender(first, seconds(10), node.memory(0), BetweenNodes{}, [](int) { return false; });
  Messenger receiver(second, seconds(10), node.memory(1), BetweenNodes{},
                     [&](int) { return departed; });
  std::vector<std::uint32_t> numbers = counting(5, 3);
  std::vector<std::uint32_t> got(5);
  std::vector<std::uint32_t> never(5);
  sender.send(seconds(0), 1, {.peer = 1, .count = 5}, bytes_of(numbers));
  receiver.receive(seconds(0), 2, {.peer = 0, .count = 5}, bytes_of(got));
  receiver.receive(seconds(0), 3, {.peer = 0, .count = 5}, bytes_of(never));
  while (!sender.empty()) {
    sender.step(seconds(0));
    receiver.step(seconds(0));
  }
  sender.close(seconds(0));
  CHECK(sender.has_left());
  departed = true;
  receiver.step(seconds(0));
  const std::vector<TransferDone> finished = receiver.take_finished();
  REQUIRE(finished.size() == 2);
  CHECK_FALSE(finished[0].error);
  CHECK(got == numbers);
  CHECK(finished[1].error->code() == ErrorCode::aborted);
}
