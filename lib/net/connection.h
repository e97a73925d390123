#pragma once
#include <optional>
#include <string>

#include "net/frame.h"
#include "net/handshake.h"
#include "net/message_stream.h"

namespace tutti::net {

/// The connection between two proven peers. It carries whole messages in both directions and never
/// blocks. One thread uses it.
class Connection {
 public:
  explicit Connection(ProvenPeer peer);

  const base::Fd& socket() const { return socket_; }
  int peer() const { return peer_; }

  /// Queues a message; the next `flush` sends it together with all others in the queue.
  void queue(ConstBytes message) { append_message(queued_, message); }
  /// The same for a message that lies in two places.
  void queue(ConstBytes head, ConstBytes body) { append_message(queued_, head, body); }
  /// Writes what the socket takes. If the connection is broken it discards everything; `receive`
  /// tells of it.
  void flush();
  /// Something is left to write once the socket takes more.
  bool has_unwritten() const { return !wire_.empty(); }
  /// Also what is queued.
  std::size_t unwritten_bytes() const { return queued_.size() + wire_.rest().size(); }

  /// Reads what has arrived. Returns nothing while the connection is up, else a text that says why
  /// it ended; messages that arrived before can still be taken with `next`.
  std::optional<std::string> receive();
  bool next(Bytes& message) { return messages_.next(message); }
  /// Frames received so far, for the heartbeat.
  std::uint64_t frames_received() const { return frames_received_; }

  /// Tells the peer that nothing more follows.
  void finish_writing();
  void close() { socket_.reset(); }

 private:
  void open_frames();

  int peer_;
  base::Fd socket_;
  FrameSealer sealer_;
  FrameOpener opener_;
  Bytes queued_;
  Bytes sealed_;  ///< scratch memory of `flush`
  StreamBuffer wire_;
  MessageReader messages_;
  std::uint64_t frames_received_ = 0;
};

}  // namespace tutti::net
