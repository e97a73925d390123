#include "net/secret.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

#include "base/failure.h"

namespace tutti::net {
namespace {

void keyed_hash(const Secret& key, std::initializer_list<ConstBytes> parts,
                std::span<std::byte> out) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, as_unsigned(key.data()), key.size(), out.size());
  for (const ConstBytes part : parts) {
    crypto_generichash_update(&state, as_unsigned(part.data()), part.size());
  }
  crypto_generichash_final(&state, as_unsigned(out.data()), out.size());
}

}  // namespace

Secret make_secret(std::string_view bytes) {
  base::check(bytes.size() == secret_bytes, "the job secret has 32 bytes");
  if (::sodium_init() < 0) throw Error(ErrorCode::internal, "cannot initialise libsodium");
  Secret secret;
  std::ranges::copy(as_bytes(bytes), secret.begin());
  return secret;
}

Nonce random_nonce() {
  Nonce nonce;
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Mac mac(const Secret& key, std::initializer_list<ConstBytes> parts) {
  Mac result;
  keyed_hash(key, parts, result);
  return result;
}

Secret derive_key(const Secret& key, std::initializer_list<ConstBytes> parts) {
  Secret result;
  keyed_hash(key, parts, result);
  return result;
}

bool equal(const Mac& a, ConstBytes b) {
  return b.size() == a.size() && ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string secret_name(const Secret& secret, std::string_view purpose) {
  std::string name = "tutti-";
  for (const std::byte byte : mac(secret, {as_bytes(purpose)})) {
    name += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return name;
}

}  // namespace tutti::net
