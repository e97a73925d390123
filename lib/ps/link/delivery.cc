#include "ps/link/delivery.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "tutti/error.h"

namespace tutti::ps {
namespace {

[[noreturn]] void refuse_packet(const std::string& what) {
  throw Error(ErrorCode::internal, "malformed packet: " + what);
}

[[noreturn]] void throw_outdated(const std::string& what) {
  throw Error(ErrorCode::mismatch,
              what + ": this process has come back with an older state than it had");
}

}  // namespace

void Delivery::transmit(std::uint64_t number, net::ConstBytes message, const Transmit& transmit) {
  std::array<std::byte, head_bytes> head;
  net::store_u64(head.data(), number);
  net::store_u64(head.data() + 8, received_);
  net::store_u64(head.data() + 16, policy_.keeps ? first_kept_ : 0);
  owes_acknowledgement_ = false;
  transmit(head, message);
}

void Delivery::send(net::Bytes message, Time now, const Transmit& transmit) {
  ++sent_;
  if (!policy_.keeps) {
    first_kept_ = sent_ + 1;
    return this->transmit(sent_, message, transmit);
  }
  kept_.push_back({std::move(message), now});
  this->transmit(sent_, kept_.back().message, transmit);
}

/// Only the first message is sent again. Its acknowledgement tells which others are missing.
void Delivery::resend(Time now, const Transmit& transmit) {
  const auto by = due();
  if (!by || now < *by) return;
  ++counts_.resent;
  kept_.front().sent = now;
  this->transmit(first_kept_, kept_.front().message, transmit);
}

void Delivery::resend_all(Time now, const Transmit& transmit) {
  if (policy_.keeps) this->transmit(0, {}, transmit);
  std::uint64_t number = first_kept_;
  for (Kept& one : kept_) {
    ++counts_.resent;
    one.sent = now;
    this->transmit(number++, one.message, transmit);
  }
}

std::optional<Delivery::Time> Delivery::due() const {
  if (kept_.empty() || !policy_.resend_after) return std::nullopt;
  return kept_.front().sent + *policy_.resend_after;
}

void Delivery::acknowledge(const Transmit& transmit) {
  if (owes_acknowledgement_) this->transmit(0, {}, transmit);
}

void Delivery::take_acknowledgement(std::uint64_t acknowledged) {
  if (acknowledged > sent_) {
    throw_outdated(fmt::format("the other end has received message {}, and {} were sent",
                               acknowledged, sent_));
  }
  while (!kept_.empty() && first_kept_ <= acknowledged) {
    kept_.pop_front();
    ++first_kept_;
  }
}

void Delivery::receive(net::ConstBytes packet, const Take& take) {
  if (packet.size() < head_bytes) refuse_packet("shorter than its head");
  const Head head{net::load_u64(packet.data()), net::load_u64(packet.data() + 8),
                  net::load_u64(packet.data() + 16)};
  const net::ConstBytes message = packet.subspan(head_bytes);
  take_acknowledgement(head.acknowledged);
  // The sender has dropped all earlier messages, because they were acknowledged.
  if (head.first_kept > received_ + 1) {
    throw_outdated(fmt::format("messages {} to {} were received, and are not here", received_ + 1,
                               head.first_kept - 1));
  }
  if (head.number == 0) {
    if (!message.empty()) refuse_packet("a message without a number");
    return;
  }
  if (head.first_kept > head.number) refuse_packet("a message that its sender does not keep");
  owes_acknowledgement_ = owes_acknowledgement_ || head.first_kept != 0;
  if (head.number <= received_) {
    ++counts_.repeated;
  } else if (head.number == received_ + 1) {
    deliver(message, take);
  } else if (head.first_kept == 0) {
    refuse_packet(fmt::format("message {} came after message {}, and one between them is missing",
                              head.number, received_));
  } else {
    hold(head.number, message);
  }
}

/// If there is no room for the message, it will come again.
void Delivery::hold(std::uint64_t number, net::ConstBytes message) {
  ++counts_.early;
  const bool fits =
      waiting_.size() < most_waiting && waiting_bytes_ + message.size() <= most_waiting_bytes;
  if (!fits || waiting_.contains(number)) return;
  waiting_.emplace(number, net::Bytes(message.begin(), message.end()));
  waiting_bytes_ += message.size();
}

void Delivery::deliver(net::ConstBytes message, const Take& take) {
  ++received_;
  take(message);
  while (!waiting_.empty() && waiting_.begin()->first <= received_ + 1) {
    const auto next = waiting_.extract(waiting_.begin());
    waiting_bytes_ -= next.mapped().size();
    if (next.key() <= received_) continue;
    ++received_;
    take(next.mapped());
  }
}

Delivery::Snapshot Delivery::save() const {
  Snapshot saved{sent_, received_, {}};
  for (const Kept& one : kept_) saved.kept.push_back(one.message);
  return saved;
}

void Delivery::restore(Snapshot saved) {
  sent_ = saved.sent;
  received_ = saved.received;
  first_kept_ = sent_ - saved.kept.size() + 1;
  kept_.clear();
  for (net::Bytes& message : saved.kept) kept_.push_back({std::move(message), {}});
}

void Delivery::replay(std::uint64_t acknowledged) {
  ++received_;
  take_acknowledgement(acknowledged);
}

}  // namespace tutti::ps
