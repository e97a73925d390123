#pragma once
#include <sodium/crypto_secretstream_xchacha20poly1305.h>

#include "net/secret.h"

namespace tutti::net {

/// One direction of an encrypted connection: libsodium's secretstream. A message that was changed,
/// repeated, left out or moved cannot be deciphered.
class CipherStream {
 public:
  static constexpr std::size_t header_bytes = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
  static constexpr std::size_t overhead = crypto_secretstream_xchacha20poly1305_ABYTES;

  explicit CipherStream(const Secret& key) : key_(key) {}

  /// The sender calls this first. `header` travels before all ciphertext.
  void begin_sending(std::span<std::byte> header);
  /// The receiver calls this first, with the sender's header. Returns false if that is no header.
  bool begin_receiving(ConstBytes header);
  bool has_begun() const { return begun_; }

  /// Enciphers `plain`. `cipher` must have room for it and the overhead. `clear` is authenticated
  /// with it.
  void encipher(ConstBytes plain, ConstBytes clear, std::span<std::byte> cipher);
  /// Deciphers `cipher`. `plain` must have its size without the overhead. Returns false if these
  /// are not the bytes that were sent here.
  bool decipher(ConstBytes cipher, ConstBytes clear, std::span<std::byte> plain);

 private:
  Secret key_;
  crypto_secretstream_xchacha20poly1305_state state_{};
  bool begun_ = false;
};

}  // namespace tutti::net
