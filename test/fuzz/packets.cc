// Numbered messages over any packets, which may be lost, late or doubled.
#include <algorithm>
#include <array>
#include <deque>

#include "fuzz/decoders.h"
#include "ps/link/delivery.h"

namespace tutti::fuzz {
namespace {

using ps::Delivery;

constexpr Delivery::Policy rules{.keeps = true, .resend_after = std::chrono::milliseconds(10)};

/// Packets, each with its length in front, in one byte.
bool receive(Bytes bytes) {
  Delivery delivery(rules);
  const auto nowhere = [](Bytes, Bytes) {};
  for (int i = 0; i < 3; ++i) delivery.send({std::byte{1}}, {}, nowhere);
  std::uint64_t taken = 0;
  const bool is_accepted =
      accepted(
          [&] {
            while (!bytes.empty()) {
              const auto size = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
              delivery.receive(bytes.subspan(1, size), [&](Bytes) { ++taken; });
              bytes = bytes.subspan(1 + size);
            }
            return true;
          },
          {ErrorCode::internal, ErrorCode::mismatch})
          .has_value();
  if (taken != delivery.received()) fail("not each message is delivered once");
  if (delivery.acknowledged() > 3) fail("more is acknowledged than was sent");
  return is_accepted;
}

/// Two ends, and packets on their way to each.
class Exchange {
 public:
  void send(std::size_t from) {
    const auto number = static_cast<std::byte>(++sent_[from]);
    ends_[from].send({number, number}, now_, to_peer_of(from));
  }
  void acknowledge(std::size_t from) { ends_[from].acknowledge(to_peer_of(from)); }
  void resend(std::size_t from) {
    now_ += *rules.resend_after;
    ends_[from].resend(now_, to_peer_of(from));
  }
  /// Makes another connection. Packets on their way are lost.
  void connect() {
    for (auto& packets : on_their_way_) packets.clear();
    for (const std::size_t end : {0U, 1U}) ends_[end].resend_all(now_, to_peer_of(end));
  }
  void arrive(std::size_t at) {
    auto& packets = on_their_way_[at];
    if (packets.empty()) return;
    const std::vector<std::byte> packet = packets.front();
    packets.pop_front();
    ends_[at].receive(packet, [&](Bytes message) {
      const auto number = static_cast<std::byte>(++received_[at]);
      if (!std::ranges::equal(message, std::array{number, number})) fail("out of order");
    });
  }
  void lose(std::size_t at) {
    if (!on_their_way_[at].empty()) on_their_way_[at].pop_front();
  }
  void repeat(std::size_t at) {
    auto& packets = on_their_way_[at];
    if (!packets.empty()) packets.push_back(packets.front());
  }
  void delay(std::size_t at) {
    repeat(at);
    lose(at);
  }
  /// An end is another process that goes on from what this one kept.
  void restart(std::size_t end) {
    Delivery next(rules);
    next.restore(ends_[end].save());
    ends_[end] = std::move(next);
    connect();
  }
  void finish() {
    connect();
    for (const std::size_t at : {0U, 1U, 0U, 1U}) {
      while (!on_their_way_[at].empty()) arrive(at);
      acknowledge(at);
    }
    const bool is_done = ends_[0].is_acknowledged() && ends_[1].is_acknowledged();
    if (!is_done || received_[0] != sent_[1] || received_[1] != sent_[0]) fail("a message is lost");
  }

 private:
  Delivery::Transmit to_peer_of(std::size_t from) {
    return [this, from](Bytes head, Bytes message) {
      std::vector<std::byte>& packet = on_their_way_[1 - from].emplace_back();
      packet.assign(head.begin(), head.end());
      packet.insert(packet.end(), message.begin(), message.end());
    };
  }

  std::array<Delivery, 2> ends_{Delivery(rules), Delivery(rules)};
  std::array<std::deque<std::vector<std::byte>>, 2> on_their_way_;  ///< by who will have them
  std::array<std::uint64_t, 2> sent_{};
  std::array<std::uint64_t, 2> received_{};
  Delivery::Time now_{};
};

/// Each byte says what happens next, and to which end.
bool exchange(Bytes happenings) {
  constexpr std::size_t most = 300;
  constexpr std::array happen{&Exchange::send,   &Exchange::arrive, &Exchange::lose,
                              &Exchange::repeat, &Exchange::delay,  &Exchange::acknowledge,
                              &Exchange::resend, &Exchange::restart};
  Exchange both;
  for (const std::byte byte : happenings.first(std::min(happenings.size(), most))) {
    const auto number = std::to_integer<std::size_t>(byte);
    (both.*happen[number / 2 % happen.size()])(number % 2);
  }
  both.finish();
  return true;
}

constexpr Decoder all[] = {{receive}, {exchange, std::size_t{16} << 20}};

std::vector<std::byte> some_packets() {
  std::vector<std::byte> packets;
  Delivery sender(rules);
  const auto add = [&](Bytes head, Bytes message) {
    packets.push_back(static_cast<std::byte>(head.size() + message.size()));
    packets.insert(packets.end(), head.begin(), head.end());
    packets.insert(packets.end(), message.begin(), message.end());
  };
  for (int i = 0; i < 3; ++i) sender.send({std::byte{7}}, {}, add);
  sender.resend_all({}, add);
  return packets;
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  std::vector<std::byte> happenings(64);
  for (std::size_t i = 0; i < happenings.size(); ++i) happenings[i] = static_cast<std::byte>(i * 7);
  return {{0, some_packets()}, {1, happenings}};
}

}  // namespace tutti::fuzz
