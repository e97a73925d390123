#pragma once
#include <cstdint>

namespace tutti::collective {

/// A gate as one word: the epoch, then the batch's number + 1. So 0 means no gate.
inline constexpr int gate_number_bits = 40;

inline std::uint64_t gate_word(std::uint32_t epoch, std::uint64_t number) {
  return (std::uint64_t{epoch} << gate_number_bits) | (number + 1);
}

}  // namespace tutti::collective
