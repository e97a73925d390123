#include "ps/link/delivery.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "ps/link/injector.h"
#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using Catch::Contains;
using net::Bytes;

namespace {

using Time = Delivery::Time;

Bytes message(int number) {
  Bytes bytes;
  net::append_u32(bytes, static_cast<std::uint32_t>(number));
  return bytes;
}

int number_of(net::ConstBytes message) {
  return static_cast<int>(net::load_u32(message.data()));
}

/// One end, the packets that it sends, and the messages that have arrived there.
struct Sender {
  Delivery delivery;
  std::deque<Bytes> wire{};
  std::vector<int> heard{};

  explicit Sender(Delivery::Policy rules) : delivery(rules) {}

  Delivery::Transmit transmit() {
    return [this](net::ConstBytes head, net::ConstBytes body) {
      Bytes packet(head.begin(), head.end());
      net::append(packet, body);
      wire.push_back(std::move(packet));
    };
  }
  void send(int number, Time now = {}) { delivery.send(message(number), now, transmit()); }
  void receive(const Bytes& packet) {
    delivery.receive(packet, [this](net::ConstBytes body) { heard.push_back(number_of(body)); });
  }
  Bytes take() {
    REQUIRE_FALSE(wire.empty());
    Bytes packet = std::move(wire.front());
    wire.pop_front();
    return packet;
  }
};

constexpr Delivery::Policy keeps{.keeps = true, .resend_after = 10ms};

std::vector<int> up_to(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

}  // namespace

TEST_CASE("a packet that comes twice is delivered once") {
  Sender a(keeps);
  Sender b(keeps);
  a.send(0);
  const Bytes packet = a.take();
  b.receive(packet);
  b.receive(packet);
  CHECK(b.heard == std::vector<int>{0});
  CHECK(b.delivery.counts().repeated == 1);
}

TEST_CASE("a packet that comes early waits for those sent before it") {
  Sender a(keeps);
  Sender b(keeps);
  for (int i = 0; i < 3; ++i) a.send(i);
  const Bytes first = a.take();
  b.receive(a.take());
  b.receive(a.take());
  CHECK(b.heard.empty());
  b.receive(first);
  CHECK(b.heard == up_to(3));
}

TEST_CASE("an unacknowledged packet is sent again in time, and not before") {
  Sender a(keeps);
  Sender b(keeps);
  const Time start{};
  a.send(0, start);
  a.wire.clear();
  a.delivery.resend(start + 9ms, a.transmit());
  CHECK(a.wire.empty());
  CHECK(a.delivery.due() == start + 10ms);
  a.delivery.resend(start + 10ms, a.transmit());
  b.receive(a.take());
  CHECK(b.heard == up_to(1));
  b.delivery.acknowledge(b.transmit());
  a.receive(b.take());
  CHECK(a.delivery.is_acknowledged());
  CHECK_FALSE(a.delivery.due());
}

TEST_CASE("an answer acknowledges, and an acknowledgement is not acknowledged") {
  Sender a(keeps);
  Sender b(keeps);
  a.send(0);
  b.receive(a.take());
  b.send(7);
  a.receive(b.take());
  CHECK(a.delivery.is_acknowledged());
  b.delivery.acknowledge(b.transmit());
  CHECK(b.wire.empty());
  a.delivery.acknowledge(a.transmit());
  b.receive(a.take());
  b.delivery.acknowledge(b.transmit());
  CHECK(b.wire.empty());
}

TEST_CASE("over another connection everything that is not acknowledged is sent again") {
  Sender a({.keeps = true});
  Sender b({.keeps = true});
  for (int i = 0; i < 5; ++i) a.send(i);
  b.receive(a.take());
  b.receive(a.take());
  a.wire.clear();
  a.delivery.resend_all({}, a.transmit());
  while (!a.wire.empty()) b.receive(a.take());
  CHECK(b.heard == up_to(5));
}

TEST_CASE("without keeping, a message that is missing is an error and none is acknowledged") {
  Sender a({});
  Sender b({});
  a.send(0);
  a.send(1);
  a.take();
  const Bytes second = a.take();
  CHECK_THAT(text_of(ErrorCode::internal, [&] { b.receive(second); }),
             Contains("one between them is missing"));
  b.delivery.acknowledge(b.transmit());
  CHECK(b.wire.empty());
  CHECK(a.delivery.is_acknowledged());
}

TEST_CASE("packets that are none are refused and change nothing") {
  Sender a(keeps);
  CHECK_THROWS_AS(a.receive(Bytes(23)), Error);
  Bytes unnumbered(28);
  CHECK_THROWS_AS(a.receive(unnumbered), Error);
  CHECK(a.heard.empty());
  Sender b(keeps);
  b.send(0);
  a.receive(b.take());
  CHECK(a.heard == up_to(1));
}

TEST_CASE("an end that was restored from a state too old is told that messages are lost") {
  Sender a(keeps);
  Sender b(keeps);
  a.send(0);
  b.receive(a.take());
  b.send(0);
  Sender restored(keeps);
  const Bytes answer = b.take();
  CHECK_THAT(text_of(ErrorCode::mismatch, [&] { restored.receive(answer); }),
             Contains("older state"));
}

TEST_CASE("an end that lost messages which it had acknowledged is told over the next connection") {
  Sender a({.keeps = true});
  Sender b({.keeps = true});
  for (int i = 0; i < 10; ++i) {
    a.send(i);
    b.receive(a.take());
  }
  b.delivery.acknowledge(b.transmit());
  a.receive(b.take());
  REQUIRE(a.delivery.is_acknowledged());
  Sender restored({.keeps = true});
  restored.delivery.restore({.sent = 0, .received = 9});
  const bool is_owed = GENERATE(false, true);
  if (is_owed) a.delivery.send(message(10), {}, [](net::ConstBytes, net::ConstBytes) {});
  a.delivery.resend_all({}, a.transmit());
  CHECK_THAT(text_of(ErrorCode::mismatch, [&] { restored.receive(a.take()); }),
             Contains("messages 10 to 10") && Contains("older state"));
  CHECK(restored.heard.empty());
}

TEST_CASE("a restored end goes on where the saved one was") {
  Sender a(keeps);
  Sender b(keeps);
  for (int i = 0; i < 4; ++i) a.send(i);
  b.receive(a.take());
  b.delivery.acknowledge(b.transmit());
  a.receive(b.take());
  Sender again(keeps);
  again.delivery.restore(a.delivery.save());
  again.delivery.resend_all({}, again.transmit());
  again.send(4);
  while (!again.wire.empty()) b.receive(again.take());
  CHECK(b.heard == up_to(5));
}

TEST_CASE("every message arrives once and in order whatever becomes of the packets") {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U, 5U}) {
    Sender ends[2] = {Sender(keeps), Sender(keeps)};
    Injector faults({.drop = 20, .delay = 20, .duplicate = 20}, seed);
    std::minstd_rand random(seed);
    constexpr int count = 500;
    Time now{};
    int sent[2] = {0, 0};
    std::vector<Bytes> late[2];
    for (int turn = 0;
         turn < 200'000 && (ends[0].heard.size() < count || ends[1].heard.size() < count);
         ++turn, now += 1ms) {
      const std::size_t from = random() % 2;
      Sender& a = ends[from];
      Sender& b = ends[1 - from];
      if (sent[from] < count) a.send(sent[from]++, now);
      a.delivery.resend(now, a.transmit());
      a.delivery.acknowledge(a.transmit());
      std::vector<Bytes> arriving = std::exchange(late[from], {});
      for (; !a.wire.empty(); a.wire.pop_front()) {
        const auto fate = faults.next();
        if (fate == Injector::Fate::is_lost) continue;
        (fate == Injector::Fate::comes_late ? late[from] : arriving).push_back(a.wire.front());
        if (fate == Injector::Fate::comes_twice) arriving.push_back(a.wire.front());
      }
      for (const Bytes& packet : arriving) b.receive(packet);
    }
    CHECK(ends[0].heard == up_to(count));
    CHECK(ends[1].heard == up_to(count));
    CHECK(faults.counts().dropped > 100);
    CHECK(faults.counts().delayed > 100);
    CHECK(faults.counts().duplicated > 100);
  }
}
