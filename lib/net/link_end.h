#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "net/connection.h"
#include "net/heartbeat.h"
#include "net/poller.h"

namespace tutti::net {

/// One end of a link between processes: the connection, watched by the poller of the thread that
/// owns it, and the heartbeat in both directions. Once it has ended, calls do nothing.
class LinkEnd {
 public:
  /// `token`: of its events in `poller`, which outlives it. `sign_of_life`: the message that is a
  /// heartbeat; the other end ignores it.
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
  /// The bytes that are queued or left to write.
  std::size_t unwritten_bytes() const { return open_ ? connection_.unwritten_bytes() : 0; }
  /// Whether the poller tells of what arrives. If not, the other end can send little more.
  void set_reading(bool wanted);
  /// Calls `take` with every message that has arrived, not verified yet. A text: the link has
  /// ended, and why.
  std::optional<std::string> receive(const std::function<void(ConstBytes)>& take);
  /// The same with the parts in which large messages have arrived.
  std::optional<std::string> receive_parcels(const std::function<void(const Parcel&)>& take);
  /// See `Connection::has_refused`.
  bool has_refused() const { return connection_.has_refused(); }
  /// Call it once a beat: sends a heartbeat. A text: the peer's heartbeats are missing for too
  /// long, and the link has ended.
  std::optional<std::string> beat(const Heartbeat& heartbeat);
  /// Only sends one.
  void show_life();

  /// Blocks until something may have arrived, or the deadline has passed.
  void wait(base::Clock::time_point deadline) const;
  /// Blocks until everything queued is written, or the deadline has passed.
  void drain(base::Clock::time_point deadline);
  /// Tells the peer that nothing follows, and blocks until it has closed its end too. Call it after
  /// `drain`.
  void close_gracefully(base::Clock::time_point deadline);

  /// A forked child calls it. Closes the child's copy of the socket.
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
