#include "ps/link/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "net/sockets.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// The delay of a packet that is delayed on purpose. It comes later than some packets that were
/// sent after it.
constexpr Clock::duration lateness = std::chrono::milliseconds(20);

std::uint32_t seed_of(const Channel::Ends& ends) {
  return static_cast<std::uint32_t>(std::hash<std::string>()(ends.me + " to " + ends.peer));
}

}  // namespace

std::string place_of(const std::string& address) {
  return address.empty() ? "on this machine" : "at " + address;
}

void log_connection(const Channel::Ends& ends, const Channel::Terms& terms,
                    const std::string& address) {
  if (terms.verbose < 1) return;
  base::log().info("{} is connected to {} {}", ends.me, ends.peer, place_of(address));
}

void log_message(const Channel::Ends& ends, const Channel::Terms& terms, const char* how,
                 std::size_t bytes) {
  if (terms.verbose < 2) return;
  base::log().info("{} {} {}: a message of {} bytes", ends.me, how, ends.peer, bytes);
}

Channel::Terms Channel::Terms::of(const Job& job, bool keeps) {
  return {.verbose = job.verbose,
          .faults = job.faults,
          .delivery = {.keeps = keeps || job.resend_after, .resend_after = job.resend_after}};
}

Channel::Channel(net::Poller& poller, std::uint64_t token, Ends ends, Terms terms)
    : poller_(poller),
      token_(token),
      ends_(std::move(ends)),
      terms_(terms),
      delivery_(terms.delivery),
      injector_(terms.faults, seed_of(ends_)) {}

Channel::~Channel() {
  const Injector::Counts& faults = injector_.counts();
  if (faults.dropped + faults.delayed + faults.duplicated == 0) return;
  const Delivery::Counts& counts = delivery_.counts();
  base::log().warn(
      "{} to {}: {} messages lost, {} delayed and {} doubled on purpose (PS_DROP_MSG and its "
      "like); {} sent again, {} came again, {} came early",
      ends_.me, ends_.peer, faults.dropped, faults.delayed, faults.duplicated, counts.resent,
      counts.repeated, counts.early);
}

void Channel::connect(net::ProvenPeer peer) {
  address_ = net::peer_address(peer.socket);
  log_connection(ends_, terms_, address_);
  late_.clear();
  link_.reset();
  link_.emplace(std::move(peer), poller_, token_, net::Bytes());
  delivery_.resend_all(Clock::now(), transmitter());
}

void Channel::send(net::Bytes message) {
  log_message(ends_, terms_, "to", message.size());
  delivery_.send(std::move(message), Clock::now(), transmitter());
}

void Channel::transmit(net::ConstBytes head, net::ConstBytes message) {
  if (!is_open()) return;
  switch (injector_.next()) {
    case Injector::Fate::is_lost:
      return;
    case Injector::Fate::comes_late: {
      net::Bytes packet(head.begin(), head.end());
      net::append(packet, message);
      late_.push_back({Clock::now() + lateness, std::move(packet)});
      return;
    }
    case Injector::Fate::comes_twice:
      link_->queue(head, net::kept({message.begin(), message.end()}));
      break;
    case Injector::Fate::arrives:
      break;
  }
  link_->queue(head, net::kept({message.begin(), message.end()}));
}

void Channel::flush() {
  if (!is_open()) return;
  const auto now = Clock::now();
  while (!late_.empty() && late_.front().due <= now) {
    link_->queue(late_.front().packet);
    late_.pop_front();
  }
  // A packet that has not left yet cannot be lost, so nothing is sent again.
  if (unwritten_bytes() == 0) delivery_.resend(now, transmitter());
  delivery_.acknowledge(transmitter());
  link_->flush();
}

std::optional<Clock::time_point> Channel::due() const {
  if (!is_open()) return std::nullopt;
  auto due = unwritten_bytes() == 0 ? delivery_.due() : std::nullopt;
  if (!late_.empty()) due = std::min(late_.front().due, due.value_or(late_.front().due));
  return due;
}

std::optional<std::string> Channel::receive(const Delivery::Take& take) {
  if (!link_) return std::nullopt;
  auto ended = link_->receive([&](net::ConstBytes packet) {
    if (packet.empty()) return;  // a heartbeat
    delivery_.receive(packet, [&](net::ConstBytes message) {
      log_message(ends_, terms_, "from", message.size());
      take(message);
    });
  });
  if (ended && terms_.verbose >= 1) {
    base::log().info("the connection of {} to {} at {} ended: {}", ends_.me, ends_.peer, address_,
                     *ended);
  }
  return ended;
}

void Channel::drain(Clock::time_point deadline) {
  flush();
  if (link_) link_->drain(deadline);
  while (is_open() && !delivery_.is_acknowledged() && Clock::now() < deadline) {
    link_->wait(std::min(deadline, due().value_or(deadline)));
    receive([](net::ConstBytes) {});
    flush();
  }
}

}  // namespace tutti::ps
