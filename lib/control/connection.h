#pragma once
#include <optional>
#include <string>

#include "control/frame.h"
#include "control/handshake.h"
#include "control/message_stream.h"

namespace tutti::control {

/// A link between two nodes' threads: whole byte strings in, the same out at the other end, never
/// blocking. One thread uses it.
class Connection {
 public:
  explicit Connection(ProvenPeer peer);

  const base::Fd& socket() const { return socket_; }
  int peer() const { return peer_; }

  /// Goes out with the next `flush`, together with everything else queued until then.
  void queue(ConstBytes message) { append_message(queued_, message); }
  /// Writes what the socket takes. A broken connection takes everything; `receive` tells of it.
  void flush();
  /// More is to be written when the socket takes it.
  bool has_unwritten() const { return !wire_.empty(); }

  /// Takes in what arrived. A text: why nothing more will come (what came before can still be
  /// taken); nothing: the link is up.
  std::optional<std::string> receive();
  bool next(Bytes& message) { return messages_.next(message); }
  /// Counts what was heard, for the heartbeat.
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
  Bytes sealed_;  ///< of no use but for its memory
  StreamBuffer wire_;
  MessageReader messages_;
  std::uint64_t frames_received_ = 0;
};

}  // namespace tutti::control
