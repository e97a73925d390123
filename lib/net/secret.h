#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "net/bytes.h"

namespace tutti::net {

inline constexpr std::size_t secret_bytes = 32;
inline constexpr std::size_t nonce_bytes = 24;
inline constexpr std::size_t mac_bytes = 16;

using Secret = std::array<std::byte, secret_bytes>;
using Nonce = std::array<std::byte, nonce_bytes>;
using Mac = std::array<std::byte, mac_bytes>;

/// Makes the job's secret of the bytes that the bootstrap has distributed. Throws `internal` if
/// their number is wrong.
Secret make_secret(std::string_view bytes);
Nonce random_nonce();

/// Keyed BLAKE2b hash of the parts, one after the other. The caller must make sure that no two
/// different lists of parts give the same bytes.
Mac mac(const Secret& key, std::initializer_list<ConstBytes> parts);
Secret derive_key(const Secret& key, std::initializer_list<ConstBytes> parts);
/// Compares in constant time.
bool equal(const Mac& a, ConstBytes b);

/// A name that nobody can guess without the secret, and that reveals nothing of it.
std::string secret_name(const Secret& secret, std::string_view purpose);

}  // namespace tutti::net
