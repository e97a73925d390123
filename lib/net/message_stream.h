#pragma once
#include "net/byte_ring.h"
#include "net/bytes.h"
#include "net/stream_buffer.h"

namespace tutti::net {

/// Messages are sent as a stream: a length of this many bytes, then the message.
inline constexpr std::size_t message_length_bytes = 4;
/// This limit is far above any real message. It keeps a corrupt length from taking all memory.
inline constexpr std::size_t max_message_bytes = std::size_t{256} << 20;
/// Throws `internal` if the message is longer.
void check_message_length(std::size_t bytes);

/// Cuts a stream into its messages again. The stream may arrive in any pieces.
class MessageReader {
 public:
  void feed(ConstBytes bytes) { stream_.feed(bytes); }
  /// Takes the next message. Returns false if it is not complete yet. Throws `internal` on an
  /// impossible length.
  bool next(Bytes& message);

 private:
  StreamBuffer stream_;
};

/// The writing end of a mailbox. Never blocks: messages for which the ring has no room wait in
/// `backlog_`.
class MailSender {
 public:
  explicit MailSender(ByteRing ring) : ring_(ring) {}

  /// Both return true if something was written: then ring the reader's bell.
  bool send(ConstBytes message);
  bool flush();
  std::size_t backlog_bytes() const { return backlog_.rest().size(); }

 private:
  ByteRing ring_;
  StreamBuffer backlog_;
};

/// The reading end of a mailbox.
class MailReceiver {
 public:
  explicit MailReceiver(ByteRing ring) : ring_(ring) {}

  /// Reads the bytes in the ring. Returns true if the writer waits for room; then ring its bell.
  bool take_in();
  bool has_more() const { return !ring_.empty(); }
  bool next(Bytes& message) { return reader_.next(message); }

 private:
  ByteRing ring_;
  MessageReader reader_;
};

}  // namespace tutti::net
