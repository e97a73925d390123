#include "net/cipher_stream.h"

#include "base/failure.h"

namespace tutti::net {

static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == secret_bytes);

void CipherStream::begin_sending(std::span<std::byte> header) {
  base::check(header.size() == header_bytes, "there is room for the header of a secretstream");
  crypto_secretstream_xchacha20poly1305_init_push(&state_, as_unsigned(header.data()),
                                                  as_unsigned(key_.data()));
  begun_ = true;
}

bool CipherStream::begin_receiving(ConstBytes header) {
  begun_ = header.size() == header_bytes &&
           crypto_secretstream_xchacha20poly1305_init_pull(&state_, as_unsigned(header.data()),
                                                           as_unsigned(key_.data())) == 0;
  return begun_;
}

void CipherStream::encipher(ConstBytes plain, ConstBytes clear, std::span<std::byte> cipher) {
  base::check(cipher.size() == plain.size() + overhead, "there is room for a secretstream message");
  crypto_secretstream_xchacha20poly1305_push(
      &state_, as_unsigned(cipher.data()), nullptr, as_unsigned(plain.data()), plain.size(),
      as_unsigned(clear.data()), clear.size(), crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
}

bool CipherStream::decipher(ConstBytes cipher, ConstBytes clear, std::span<std::byte> plain) {
  if (!begun_ || cipher.size() != plain.size() + overhead) return false;
  unsigned char tag = 0;
  return crypto_secretstream_xchacha20poly1305_pull(&state_, as_unsigned(plain.data()), nullptr,
                                                    &tag, as_unsigned(cipher.data()), cipher.size(),
                                                    as_unsigned(clear.data()), clear.size()) == 0;
}

}  // namespace tutti::net
