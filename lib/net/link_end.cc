#include "net/link_end.h"

#include <fmt/format.h>

#include "net/sockets.h"

namespace tutti::net {

LinkEnd::LinkEnd(ProvenPeer peer, Poller& poller, std::uint64_t token, Bytes sign_of_life)
    : connection_(std::move(peer)),
      poller_(poller),
      token_(token),
      sign_of_life_(std::move(sign_of_life)) {
  poller_.add(connection_.socket(), token_);
}

void LinkEnd::close() {
  if (!open_) return;
  open_ = false;
  poller_.remove(connection_.socket());
  connection_.close();
}

void LinkEnd::abandon() {
  // The child shares the poller with its parent, so the descriptors that it watches must not
  // change.
  open_ = false;
  connection_.close();
}

void LinkEnd::flush() {
  if (!open_) return;
  connection_.flush();
  watch(watching_reading_, connection_.has_unwritten());
}

void LinkEnd::set_reading(bool wanted) {
  if (open_) watch(wanted, watching_writing_);
}

void LinkEnd::watch(bool reading, bool writing) {
  if (reading == watching_reading_ && writing == watching_writing_) return;
  watching_reading_ = reading;
  watching_writing_ = writing;
  poller_.watch(connection_.socket(), token_, reading, writing);
}

std::optional<std::string> LinkEnd::receive(const std::function<void(ConstBytes)>& take) {
  return receive_parcels([&](const Parcel& parcel) {
    if (!parcel.body) return take(parcel.head);
    if (parcel.head.empty()) return take(parcel.body_span());
    Bytes whole = parcel.head;
    append(whole, parcel.body_span());
    take(whole);
  });
}

std::optional<std::string> LinkEnd::receive_parcels(
    const std::function<void(const Parcel&)>& take) {
  if (!open_) return std::nullopt;
  auto ended = connection_.receive();
  while (connection_.next(parcel_)) take(parcel_);
  if (ended) close();
  return ended;
}

std::optional<std::string> LinkEnd::beat(const Heartbeat& heartbeat) {
  if (!open_) return std::nullopt;
  show_life();
  const int missed = check_.count_missed(connection_.frames_received());
  if (missed < heartbeat.most_missed) return std::nullopt;
  close();
  return fmt::format("{} heartbeats are missing on it, for {}", missed, heartbeat.limit);
}

void LinkEnd::show_life() {
  queue(sign_of_life_);
  flush();
}

void LinkEnd::wait(base::Clock::time_point deadline) const {
  if (open_) wait_readable(connection_.socket(), deadline);
}

void LinkEnd::drain(base::Clock::time_point deadline) {
  flush();
  while (open_ && connection_.has_unwritten() && wait_writable(connection_.socket(), deadline)) {
    connection_.flush();
  }
}

void LinkEnd::close_gracefully(base::Clock::time_point deadline) {
  if (open_) connection_.finish_writing();
  // If a socket is closed while it has unread data, the connection is reset, and then the peer
  // might not receive the last messages. So this reads until the peer closes.
  while (open_ && wait_readable(connection_.socket(), deadline)) receive([](ConstBytes) {});
}

}  // namespace tutti::net
