#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "net/bytes.h"
#include "net/secret.h"
#include "net/slice.h"
#include "net/stream_buffer.h"

namespace tutti::net {

class CipherStream;

/// A frame on a link: the length of the payload (4 bytes), its MAC, and the payload. The MAC is
/// Poly1305 with a key for this frame only. ChaCha20 makes that key of the direction's key and the
/// frame's number. So the receiver refuses a frame that was changed, repeated, dropped or moved. If
/// a connection is encrypted, frames are the messages of a secretstream of libsodium, which
/// promises the same. Such a frame has the length and then the ciphertext, and the stream's header
/// comes before the first.
inline constexpr std::size_t max_frame_payload = std::size_t{64} << 10;
inline constexpr std::size_t frame_header_bytes = 4 + mac_bytes;

/// The key of one direction of a connection, and whether it also encrypts.
struct FrameKey {
  Secret key{};
  bool encrypts = false;
};

class FrameSealer {
 public:
  explicit FrameSealer(const FrameKey& key);
  ~FrameSealer();
  FrameSealer(FrameSealer&&) noexcept;
  /// Appends a frame to `wire`, and returns how many bytes were appended. The payload has at most
  /// `max_frame_payload` bytes. It stays where it is, unless it is encrypted.
  std::size_t seal(Slice payload, SliceQueue& wire);

 private:
  void encipher(ConstBytes payload, Bytes& frame);

  Secret key_;
  SliceMemory memory_;
  std::uint64_t number_ = 0;
  std::unique_ptr<CipherStream> cipher_;  ///< null: frames are not encrypted
};

class FrameOpener {
 public:
  explicit FrameOpener(const FrameKey& key);
  ~FrameOpener();
  FrameOpener(FrameOpener&&) noexcept;
  void feed(ConstBytes wire) { wire_.feed(wire); }
  /// The payload of the next frame. It is valid until the next `feed`. Returns nothing while the
  /// frame is incomplete. Throws `internal` for a frame that is too long or not authentic;
  /// afterwards the stream cannot be used.
  std::optional<ConstBytes> next();
  /// The bytes of an incomplete frame that have been fed.
  ConstBytes rest() const { return wire_.rest(); }
  /// Notes that the caller takes these bytes. It must then let `check` check the frame.
  void use_rest() { wire_.use(wire_.rest().size()); }
  /// Checks a frame whose parts lie elsewhere, and counts it as the next one. Throws the same
  /// errors as `next`.
  void check(ConstBytes header, ConstBytes payload);
  bool decrypts() const { return cipher_ != nullptr; }

 private:
  std::optional<ConstBytes> next_deciphered();
  ConstBytes frame_of(std::size_t length, std::size_t overhead) const;

  Secret key_;
  std::uint64_t number_ = 0;
  StreamBuffer wire_;
  std::unique_ptr<CipherStream> cipher_;
  Bytes plain_;
};

}  // namespace tutti::net
