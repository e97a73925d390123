#include "reduce/reduce.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "reduce/direct.h"
#include "tutti/error.h"

namespace tutti::reduce {
namespace {

/// Partial results of a tree of loops stay this small, so that the first-level cache holds them.
constexpr std::size_t block_bytes = 8192;

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

bool is_integer(DType dtype) {
  return !is_half(dtype) && dtype != DType::f32 && dtype != DType::f64;
}

Direct find(ReduceOp op, DType in, DType out, std::size_t sources) {
  if (op == ReduceOp::min && sources > 1) {
    return find_min(in, out, sources);
  }
  if (op == ReduceOp::max && sources > 1) {
    return find_max(in, out, sources);
  }
  return find_sum(in, out, sources);
}

const void* advance(const void* memory, std::size_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

/// The loops of one call, and the sources that they read.
class Tree {
 public:
  Tree(const Kernel& kernel, Finish finish)
      : op_(kernel.op),
        in_(kernel.in),
        acc_(is_half(kernel.in) ? DType::f32 : kernel.in),
        out_(kernel.out),
        finish_(finish) {}

  std::size_t elements_per_block() const { return block_bytes / size_of(acc_); }

  /// Elements [begin, begin + count) of the result to `dst`; at most a block of them when no
  /// loop is made for so many sources.
  void result(std::span<const void* const> sources, std::size_t begin, std::size_t count,
              void* dst) const {
    fold(sources, begin, count, out_, dst, finish_);
  }

 private:
  void fold(std::span<const void* const> sources, std::size_t begin, std::size_t count, DType out,
            void* dst, Finish finish) const {
    const std::size_t n = sources.size();
    if (is_direct(n)) {
      std::array<const void*, max_direct> here{};
      for (std::size_t s = 0; s < n; ++s) {
        here[s] = advance(sources[s], begin * size_of(in_));
      }
      find(op_, in_, out, n)(here.data(), dst, count, finish);
      return;
    }
    alignas(64) std::array<std::byte, block_bytes> left;
    alignas(64) std::array<std::byte, block_bytes> right;
    const std::size_t half = std::bit_floor(n - 1);
    const std::array<const void*, 2> halves = {
        partial(sources.first(half), begin, count, left.data()),
        partial(sources.subspan(half), begin, count, right.data())};
    find(op_, acc_, out, 2)(halves.data(), dst, count, finish);
  }

  /// A subtree's value: in `buffer`, or where it is already.
  const void* partial(std::span<const void* const> sources, std::size_t begin, std::size_t count,
                      void* buffer) const {
    if (sources.size() == 1 && in_ == acc_) {
      return advance(sources[0], begin * size_of(in_));
    }
    fold(sources, begin, count, acc_, buffer, {});
    return buffer;
  }

  ReduceOp op_;
  DType in_;
  DType acc_;
  DType out_;
  Finish finish_;
};

/// Towards zero, in a type that holds the divisor too.
template <typename T, typename Wide>
void divide(void* data, std::size_t count, Wide divisor) {
  auto* bytes = static_cast<std::byte*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    value = static_cast<T>(static_cast<Wide>(value) / divisor);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

void divide(DType dtype, void* data, std::size_t count, double divisor) {
  const auto narrow = static_cast<std::int32_t>(divisor);
  switch (dtype) {
    case DType::i8:
      return divide<std::int8_t>(data, count, narrow);
    case DType::u8:
      return divide<std::uint8_t>(data, count, narrow);
    case DType::i32:
      return divide<std::int32_t>(data, count, narrow);
    default:
      return divide<std::int64_t>(data, count, static_cast<std::int64_t>(divisor));
  }
}

void check(const Kernel& kernel, std::size_t sources) {
  if (sources == 0 || find_sum(kernel.in, kernel.out, 1) == nullptr) {
    throw Error(ErrorCode::internal, fmt::format("reduce: no kernel from {} sources of {} to {}",
                                                 sources, name(kernel.in), name(kernel.out)));
  }
  if (kernel.op != ReduceOp::average) {
    return;
  }
  constexpr double most = std::numeric_limits<std::int32_t>::max();
  const double divisor = kernel.divisor;
  const bool whole = divisor >= 1 && divisor <= most && std::trunc(divisor) == divisor;
  if (!(divisor > 0) || (is_integer(kernel.in) && !whole)) {
    throw Error(ErrorCode::internal,
                fmt::format("reduce: cannot average {} by {}", name(kernel.in), divisor));
  }
}

template <typename T>
void fill(void* dst, std::size_t count, T value) {
  auto* bytes = static_cast<std::byte*>(dst);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
void fill_extreme(ReduceOp op, void* dst, std::size_t count) {
  using Limits = std::numeric_limits<T>;
  const T highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const T lowest = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
  fill<T>(dst, count, op == ReduceOp::min ? highest : lowest);
}

}  // namespace

void reduce(const Kernel& kernel, std::span<const void* const> sources, void* dst,
            std::size_t count, bool streaming) {
  check(kernel, sources.size());
  const bool average = kernel.op == ReduceOp::average && kernel.divisor != 1;
  const bool divides_after = average && is_integer(kernel.in);
  if (sources.size() == 1 && kernel.in == kernel.out && !average) {
    // The loop over bytes copies without a look at them.
    find_sum(DType::u8, DType::u8, 1)(sources.data(), dst, count * size_of(kernel.in),
                                      {1, streaming});
    return;
  }
  const Tree tree(kernel, {average ? kernel.divisor : 1, streaming && !divides_after});
  const bool in_one = is_direct(sources.size()) && !divides_after;
  const std::size_t step = in_one ? std::max<std::size_t>(count, 1) : tree.elements_per_block();
  for (std::size_t begin = 0; begin < count; begin += step) {
    void* here = static_cast<std::byte*>(dst) + begin * size_of(kernel.out);
    const std::size_t size = std::min(step, count - begin);
    tree.result(sources, begin, size, here);
    if (divides_after) {
      divide(kernel.out, here, size, kernel.divisor);
    }
  }
}

void fill_identity(DType dtype, ReduceOp op, void* dst, std::size_t count) {
  if (op == ReduceOp::sum || op == ReduceOp::average) {
    fill<std::uint8_t>(dst, count * size_of(dtype), 0);
    return;
  }
  const bool min = op == ReduceOp::min;
  switch (dtype) {
    case DType::f16:
      return fill<std::uint16_t>(dst, count, min ? 0x7C00 : 0xFC00);
    case DType::bf16:
      return fill<std::uint16_t>(dst, count, min ? 0x7F80 : 0xFF80);
    case DType::f32:
      return fill_extreme<float>(op, dst, count);
    case DType::f64:
      return fill_extreme<double>(op, dst, count);
    case DType::i8:
      return fill_extreme<std::int8_t>(op, dst, count);
    case DType::u8:
      return fill_extreme<std::uint8_t>(op, dst, count);
    case DType::i32:
      return fill_extreme<std::int32_t>(op, dst, count);
    case DType::i64:
      return fill_extreme<std::int64_t>(op, dst, count);
  }
}

std::string_view simd_level() {
  return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

}  // namespace tutti::reduce
