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

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

bool is_integer(DType dtype) {
  return is_arithmetic(dtype) && !is_half(dtype) && dtype != DType::f32 && dtype != DType::f64;
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

/// Divides towards zero, in a type that also holds the divisor.
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

void check_divisor(const Kernel& kernel) {
  constexpr double most = std::numeric_limits<std::int32_t>::max();
  const double divisor = kernel.divisor;
  const bool whole = divisor >= 1 && divisor <= most && std::trunc(divisor) == divisor;
  if (!(divisor > 0) || (is_integer(kernel.in) && !whole)) {
    throw Error(ErrorCode::internal,
                fmt::format("reduce: cannot average {} by {}", name(kernel.in), divisor));
  }
}

void reduce(const Kernel& kernel, std::span<const void* const> sources, void* dst,
            std::size_t count, bool streaming) {
  const bool average = kernel.op == ReduceOp::average && kernel.divisor != 1;
  const bool copies = sources.size() == 1 && kernel.in == kernel.out && !average;
  // A plain copy does not interpret the elements. Their dtype may be one that is never added.
  const Direct loop = copies ? find_sum(DType::u8, DType::u8, 1)
                             : find(kernel.op, kernel.in, kernel.out, sources.size());
  if (sources.empty() || loop == nullptr) {
    throw Error(ErrorCode::internal,
                fmt::format("reduce: no kernel from {} sources of {} to {}", sources.size(),
                            name(kernel.in), name(kernel.out)));
  }
  if (average) {
    check_divisor(kernel);
  }
  if (count == 0) {
    return;
  }
  if (copies) {
    loop(sources, dst, count * size_of(kernel.in), {1, streaming});
    return;
  }
  if (average && is_integer(kernel.in)) {
    loop(sources, dst, count, {});
    divide(kernel.out, dst, count, kernel.divisor);
    return;
  }
  loop(sources, dst, count, {average ? kernel.divisor : 1, streaming});
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
    default:
      throw Error(ErrorCode::internal, fmt::format("reduce: {} is never compared", name(dtype)));
  }
}

std::string_view simd_level() {
  return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

}  // namespace tutti::reduce
