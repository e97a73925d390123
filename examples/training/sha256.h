#pragma once
#include <sodium.h>

#include <cstddef>
#include <string>

namespace training {

/// SHA-256 over bytes that come in pieces.
class Sha256 {
 public:
  Sha256() { crypto_hash_sha256_init(&state_); }
  void add(const void* data, std::size_t bytes) {
    crypto_hash_sha256_update(&state_, static_cast<const unsigned char*>(data), bytes);
  }
  /// Ends the hash: 64 lower-case digits.
  std::string hex();

 private:
  crypto_hash_sha256_state state_;
};

}  // namespace training
