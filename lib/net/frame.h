#pragma once
#include <cstdint>
#include <optional>

#include "net/bytes.h"
#include "net/secret.h"
#include "net/stream_buffer.h"

namespace tutti::net {

/// A frame on a link: the length of the payload (4 bytes), its MAC, the payload. The MAC also
/// covers the frame's number in its direction of the connection, so that a frame that was changed,
/// repeated, dropped or moved is refused. Frames are authenticated, not encrypted.
inline constexpr std::size_t max_frame_payload = std::size_t{64} << 10;
inline constexpr std::size_t frame_header_bytes = 4 + mac_bytes;

class FrameSealer {
 public:
  explicit FrameSealer(const Secret& key) : key_(key) {}
  /// Appends `payload` to `wire`, in as many frames as it takes.
  void seal(ConstBytes payload, Bytes& wire);

 private:
  Secret key_;
  std::uint64_t number_ = 0;
};

class FrameOpener {
 public:
  explicit FrameOpener(const Secret& key) : key_(key) {}
  void feed(ConstBytes wire) { wire_.feed(wire); }
  /// The payload of the next frame, valid until the next `feed`; nothing while the frame is
  /// incomplete. Throws `internal` for a frame that is too long or not authentic; afterwards the
  /// stream cannot be used.
  std::optional<ConstBytes> next();

 private:
  Secret key_;
  std::uint64_t number_ = 0;
  StreamBuffer wire_;
};

}  // namespace tutti::net
