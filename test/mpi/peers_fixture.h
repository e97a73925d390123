#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tutti.h"

/// The tests of send and recv share these.
namespace store_test {

inline int next_to(const tutti::KVStore& store) {
  return (store.rank() + 1) % store.num_workers();
}

inline int before(const tutti::KVStore& store) {
  return (store.rank() + store.num_workers() - 1) % store.num_workers();
}

/// Bytes that differ by sender, number and place.
inline std::byte byte_of(int rank, std::size_t number, std::size_t at) {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(rank) * 7919 + number * 104729 + at) * 0x9e3779b97f4a7c15U;
  return static_cast<std::byte>(mixed >> 40);
}

/// A tensor of bytes with memory of its own.
struct Bytes {
  explicit Bytes(std::size_t count) : memory(count + 1) {}

  void fill(int rank, std::size_t number) {
    for (std::size_t i = 0; i + 1 < memory.size(); ++i) memory[i] = byte_of(rank, number, i);
  }
  bool are_from(int rank, std::size_t number) const {
    for (std::size_t i = 0; i + 1 < memory.size(); ++i) {
      if (memory[i] != byte_of(rank, number, i)) return false;
    }
    return true;
  }
  tutti::Tensor tensor() {
    return {memory.data(), {static_cast<std::int64_t>(memory.size() - 1)}, tutti::DType::u8};
  }

  std::vector<std::byte> memory;
};

}  // namespace store_test
