#pragma once
#include <optional>
#include <string>

#include "net/handshake.h"
#include "net/intake.h"
#include "net/outflow.h"

namespace tutti::net {

/// The connection between two proven peers. It carries whole messages in both directions and never
/// blocks. One thread uses it.
class Connection {
 public:
  explicit Connection(ProvenPeer peer);

  const base::Fd& socket() const { return socket_; }
  int peer() const { return peer_; }

  /// Queues a message; the next `flush` sends it together with all others in the queue.
  void queue(ConstBytes message) { out_.add(message); }
  /// Does the same for a message that lies in two places. If the body is large, it stays where it
  /// is until it is written.
  void queue(ConstBytes head, Slice body) { out_.add(head, std::move(body)); }
  /// Writes as much as the socket takes. If the connection is broken, it discards everything, and
  /// `receive` tells of it.
  void flush();
  /// Whether something is left to write once the socket takes more.
  bool has_unwritten() const { return !out_.empty(); }
  /// The number of bytes that are left to write. Queued messages count.
  std::size_t unwritten_bytes() const { return out_.bytes(); }

  /// Reads the bytes that have arrived. Returns nothing while the connection is up, and otherwise a
  /// text that says why it has ended. Messages that arrived before can still be taken by `next`.
  std::optional<std::string> receive();
  bool next(Parcel& parcel) { return in_.next(parcel); }
  /// Whether the connection has ended because the received bytes did not come from the proven peer.
  bool has_refused() const { return has_refused_; }
  /// The number of received frames, for the heartbeat.
  std::uint64_t frames_received() const { return in_.frames(); }

  /// Tells the peer that nothing more follows.
  void finish_writing();
  void close() { socket_.reset(); }

 private:
  int peer_;
  base::Fd socket_;
  Outflow out_;
  Intake in_;
  bool has_refused_ = false;
};

}  // namespace tutti::net
