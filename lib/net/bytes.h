#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace tutti::net {

using Bytes = std::vector<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Numbers travel in little-endian order on every machine.
inline void store_u32(std::byte* to, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

inline std::uint32_t load_u32(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(from[i]) << (8 * i);
  return value;
}

inline void store_u64(std::byte* to, std::uint64_t value) {
  store_u32(to, static_cast<std::uint32_t>(value));
  store_u32(to + 4, static_cast<std::uint32_t>(value >> 32));
}

inline std::uint64_t load_u64(const std::byte* from) {
  return load_u32(from) | std::uint64_t{load_u32(from + 4)} << 32;
}

inline void append(Bytes& to, ConstBytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

inline void append_u32(Bytes& to, std::uint32_t value) {
  std::byte raw[4];
  store_u32(raw, value);
  append(to, raw);
}

inline void append_u64(Bytes& to, std::uint64_t value) {
  std::byte raw[8];
  store_u64(raw, value);
  append(to, raw);
}

inline ConstBytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string_view as_text(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline unsigned char* as_unsigned(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

inline const unsigned char* as_unsigned(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace tutti::net
