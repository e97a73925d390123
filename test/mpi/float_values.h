#pragma once
#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tutti/tensor.h"

/// Float tensors whose sums show in which order they were added, and the sums themselves.
namespace float_values {

using tutti::DType;
using Bytes = std::vector<std::byte>;

struct Item {
  DType dtype;
  std::size_t count;
  std::size_t bytes() const { return count * size_of(dtype); }
};

/// Many small ones to fuse, and larger ones than any part or slice that is tried.
inline std::vector<Item> items() {
  std::vector<Item> all;
  for (std::size_t count = 1; count < 40; count += 2) all.push_back({DType::f32, count});
  for (const std::size_t count : {999U, 4097U, 60'001U, 300'007U})
    all.push_back({DType::f32, count});
  for (const std::size_t count : {3U, 20'011U}) all.push_back({DType::f64, count});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::size_t count : {1U, 777U, 50'003U}) all.push_back({dtype, count});
  }
  return all;
}

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A float of either sign between 2^-8 and 2^8, so that the order of a sum shows in its bits.
template <typename Bits>
Bits float_bits(std::uint64_t random, int fraction_bits, int bias) {
  const std::uint64_t fraction = random & ((std::uint64_t{1} << fraction_bits) - 1);
  const std::uint64_t exponent = (random >> 53) % 16 + static_cast<std::uint64_t>(bias) - 8;
  const std::uint64_t sign = random >> 63;
  return static_cast<Bits>((sign << (8 * sizeof(Bits) - 1)) | (exponent << fraction_bits) |
                           fraction);
}

template <typename Bits>
Bytes fill(std::size_t count, std::uint64_t seed, int fraction_bits, int bias) {
  std::vector<Bits> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = float_bits<Bits>(mixed(seed + i * 0x9e3779b97f4a7c15U), fraction_bits, bias);
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// The contribution of a rank to a key. Every rank can compute it.
inline Bytes contribution(std::uint64_t seed, int rank, std::size_t key, const Item& item) {
  const std::uint64_t own = mixed(seed ^ mixed(static_cast<std::uint64_t>(rank) * 1000 + key + 1));
  switch (item.dtype) {
    case DType::f32:
      return fill<std::uint32_t>(item.count, own, 23, 127);
    case DType::f64:
      return fill<std::uint64_t>(item.count, own, 52, 1023);
    case DType::f16:
      return fill<std::uint16_t>(item.count, own, 10, 15);
    default:
      return fill<std::uint16_t>(item.count, own, 7, 127);
  }
}

template <typename T>
void add_to(Bytes& sum, const Bytes& other) {
  for (std::size_t at = 0; at < sum.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, sum.data() + at, sizeof a);
    std::memcpy(&b, other.data() + at, sizeof b);
    a += b;
    std::memcpy(sum.data() + at, &a, sizeof a);
  }
}

using Split = std::function<std::size_t(std::size_t)>;

/// The sum over ranks [begin, end) in the binary tree in which `split` says how many of n go left.
inline Bytes tree_sum(std::uint64_t seed, std::size_t key, const Item& item, int begin, int end,
                      const Split& split) {
  if (end - begin == 1) return contribution(seed, begin, key, item);
  const int middle = begin + static_cast<int>(split(static_cast<std::size_t>(end - begin)));
  Bytes sum = tree_sum(seed, key, item, begin, middle, split);
  const Bytes right = tree_sum(seed, key, item, middle, end, split);
  item.dtype == DType::f64 ? add_to<double>(sum, right) : add_to<float>(sum, right);
  return sum;
}

inline bool is_wide(const Item& item) {
  return size_of(item.dtype) >= sizeof(float);
}

/// A hash of the results with 32 and 64 bits, or of those with 16 bits.
inline std::string hash(const std::vector<Bytes>& results, bool wide) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  const std::vector<Item> all = items();
  for (std::size_t key = 0; key < all.size(); ++key) {
    if (is_wide(all[key]) != wide) continue;
    const auto* const data = reinterpret_cast<const unsigned char*>(results[key].data());
    crypto_hash_sha256_update(&state, data, results[key].size());
  }
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

/// The hash of the wide sums as a tree computes them.
inline std::string expected_hash(std::uint64_t seed, int ranks, const Split& split) {
  const std::vector<Item> all = items();
  std::vector<Bytes> sums(all.size());
  for (std::size_t key = 0; key < all.size(); ++key) {
    if (is_wide(all[key])) sums[key] = tree_sum(seed, key, all[key], 0, ranks, split);
  }
  return hash(sums, true);
}

}  // namespace float_values
