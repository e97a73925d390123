#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "net/connection.h"
#include "net/heartbeat.h"
#include "net/poller.h"

namespace tutti::net {

/// One end of a link between processes: the connection, which the poller of the owning thread
/// watches, and the heartbeat in both directions. Once the link has ended, calls do nothing.
class LinkEnd {
 public:
  /// `token` marks its events in `poller`, which outlives it. `sign_of_life` is the message that is
  /// a heartbeat; the other end ignores it.
  LinkEnd(ProvenPeer peer, Poller& poller, std::uint64_t token, Bytes sign_of_life);
  ~LinkEnd() { close(); }
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  bool is_open() const { return open_; }
  int peer() const { return connection_.peer(); }
  void queue(ConstBytes message) {
    if (open_) connection_.queue(message);
  }
  /// A large body stays where it is until it is written.
  void queue(ConstBytes head, Slice body) {
    if (open_) connection_.queue(head, std::move(body));
  }
  void flush();
  /// The number of bytes that are queued or left to write.
  std::size_t unwritten_bytes() const { return open_ ? connection_.unwritten_bytes() : 0; }
  /// Sets whether the poller reports what arrives. If it does not, the other end can send little
  /// more.
  void set_reading(bool wanted);
  /// Calls `take` with every message that has arrived; the messages are not verified yet. Returns
  /// the reason if the link has ended.
  std::optional<std::string> receive(const std::function<void(ConstBytes)>& take);
  /// Does the same, with the parts in which large messages have arrived.
  std::optional<std::string> receive_parcels(const std::function<void(const Parcel&)>& take);
  /// See `Connection::has_refused`.
  bool has_refused() const { return connection_.has_refused(); }
  /// Call this once a beat: it sends a heartbeat. If the peer's heartbeats have been missing for
  /// too long, the link has ended, and this returns the reason.
  std::optional<std::string> beat(const Heartbeat& heartbeat);
  /// Sends a heartbeat, and does nothing else.
  void show_life();

  /// Blocks until something may have arrived, or the deadline has passed.
  void wait(base::Clock::time_point deadline) const;
  /// Blocks until everything queued is written, or the deadline has passed.
  void drain(base::Clock::time_point deadline);
  /// Tells the peer that nothing follows, and blocks until the peer has closed its end, too. Call
  /// it after `drain`.
  void close_gracefully(base::Clock::time_point deadline);

  /// A forked child calls this. It closes the child's copy of the socket.
  void abandon();

 private:
  void close();
  void watch(bool reading, bool writing);

  Connection connection_;
  Poller& poller_;
  std::uint64_t token_;
  HeartbeatCheck check_;
  const Bytes sign_of_life_;
  Parcel parcel_;
  bool open_ = true;
  bool watching_reading_ = true;
  bool watching_writing_ = false;
};

}  // namespace tutti::net
