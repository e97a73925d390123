#include "benchmarks/allreduce/pattern.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti::bench {
namespace {

constexpr std::size_t period = 251;
/// Elements that are copied or compared at once, in whole periods. One more period is kept, so that
/// a copy can begin at any phase.
constexpr std::size_t stretch = period * 64;

std::size_t phase_of(int rank, std::uint64_t turn) {
  return (static_cast<std::size_t>(rank) * 13 + turn * 7) % period;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// Stores a whole number from 0 to 256. Every dtype but i8 holds these exactly.
void store(std::byte* at, DType dtype, int value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  switch (dtype) {
    case DType::f16:
      // Changes the exponent's bias from 127 to 15. Zero has no exponent to change.
      return store(at, static_cast<std::uint16_t>(value == 0 ? 0 : (bits >> 13) - (112U << 10)));
    case DType::bf16:
      return store(at, static_cast<std::uint16_t>(bits >> 16));
    case DType::f32:
      return store(at, bits);
    case DType::f64:
      return store(at, static_cast<double>(value));
    case DType::i8:
    case DType::u8:
      return store(at, static_cast<std::uint8_t>(value));
    case DType::i32:
      return store(at, static_cast<std::int32_t>(value));
    case DType::i64:
      return store(at, static_cast<std::int64_t>(value));
    default:
      return;
  }
}

int combined(ReduceOp op, int a, int b) {
  switch (op) {
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    default:
      return a + b;
  }
}

}  // namespace

Pattern::Pattern(DType dtype, int ranks, ReduceOp op) : dtype_(dtype), width_(size_of(dtype)) {
  // An average of multiples of the ranks is a whole number.
  const int unit = op == ReduceOp::average ? ranks : 1;
  const int largest = std::clamp(127 / (ranks * unit), 1, 8);
  std::vector<int> numbers(period);
  // Squares modulo a prime, for they vary irregularly. Consecutive numbers would look alike after a
  // shift.
  for (std::size_t i = 0; i < period; ++i) {
    numbers[i] = static_cast<int>(i * i % period) % (largest + 1) * unit;
  }
  std::vector<int> results(period);
  for (std::size_t i = 0; i < period; ++i) {
    results[i] = numbers[(i + phase_of(0, 0)) % period];
    for (int rank = 1; rank < ranks; ++rank) {
      results[i] = combined(op, results[i], numbers[(i + phase_of(rank, 0)) % period]);
    }
    results[i] /= unit;
  }
  input_ = encode(numbers);
  result_ = encode(results);
}

Pattern::Sequence Pattern::encode(const std::vector<int>& numbers) const {
  Sequence sequence{std::vector<std::byte>((stretch + period) * width_)};
  for (std::size_t i = 0; i < stretch + period; ++i) {
    store(sequence.bytes.data() + i * width_, dtype_, numbers[i % period]);
  }
  return sequence;
}

void Pattern::fill(void* data, std::size_t count, int rank, std::uint64_t turn) const {
  const std::byte* const from = input_.bytes.data() + phase_of(rank, turn) * width_;
  auto* const to = static_cast<std::byte*>(data);
  for (std::size_t at = 0; at < count; at += stretch) {
    std::memcpy(to + at * width_, from, std::min(stretch, count - at) * width_);
  }
}

std::size_t Pattern::wrong(const Sequence& expected, std::size_t phase, const void* data,
                           std::size_t count) const {
  const std::byte* const right = expected.bytes.data() + phase * width_;
  const auto* const found = static_cast<const std::byte*>(data);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < count; at += stretch) {
    const std::size_t length = std::min(stretch, count - at);
    const std::byte* const here = found + at * width_;
    if (std::memcmp(here, right, length * width_) == 0) continue;
    for (std::size_t i = 0; i < length; ++i) {
      wrong += std::memcmp(here + i * width_, right + i * width_, width_) != 0 ? 1 : 0;
    }
  }
  return wrong;
}

std::size_t Pattern::wrong_in_sum(const void* data, std::size_t count, std::uint64_t turn,
                                  std::size_t first) const {
  return wrong(result_, (phase_of(0, turn) + first) % period, data, count);
}

std::size_t Pattern::wrong_in_copy(const void* data, std::size_t count, int rank,
                                   std::uint64_t turn, std::size_t first) const {
  return wrong(input_, (phase_of(rank, turn) + first) % period, data, count);
}

}  // namespace tutti::bench
