#pragma once
#include <memory>

#include "base/fd.h"
#include "net/frame.h"

namespace tutti::net {

/// The messages that a connection has still to send, in order, and the frames that they become.
/// Small messages are copied and share frames, but none is cut. A large message begins with a frame
/// that holds its length and its head. Its body stays where it is, and follows in frames, which are
/// full except for the last one.
class Outflow {
 public:
  explicit Outflow(const FrameKey& key) : sealer_(key) {}

  /// Throws `internal` if the message has more than `max_message_bytes`.
  void add(ConstBytes head, Slice body = {});
  bool empty() const { return bytes() == 0; }
  std::size_t bytes() const {
    return (gathered_ ? gathered_->size() : 0) + plain_bytes_ + wire_bytes_;
  }
  /// Writes as much as the socket takes. Returns false if the connection is broken.
  bool write(const base::Fd& socket);
  void discard();

 private:
  void gather(ConstBytes head, ConstBytes rest_of_it, std::size_t message_bytes);
  void close_frame();
  void add_payload(Slice payload);
  void seal_next();
  void use(std::size_t written);

  SliceMemory memory_;
  std::shared_ptr<Bytes> gathered_;  ///< the frame that small messages are copied into, if any
  SliceQueue plain_;                 ///< each becomes one frame or, where it is longer, several
  std::size_t plain_bytes_ = 0;
  FrameSealer sealer_;
  SliceQueue wire_;
  std::size_t wire_bytes_ = 0;
};

}  // namespace tutti::net
