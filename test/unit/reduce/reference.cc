#include "reference.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "topology/topology.h"

namespace reference {
namespace {

constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64,
                            DType::i8,  DType::u8,   DType::i32, DType::i64};
constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};

template <typename T>
T element(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void put(Bytes& bytes, std::size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

template <typename T>
T lower(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) {
      return std::numeric_limits<T>::quiet_NaN();
    }
    if (a == b) {
      return std::signbit(a) ? a : b;
    }
  }
  return b < a ? b : a;
}

template <typename T>
T higher(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return -lower<T>(-a, -b);
  } else {
    return a < b ? b : a;
  }
}

template <typename T>
T tree(ReduceOp op, const T* values, int n) {
  if (n == 1) {
    return values[0];
  }
  const int left = tutti::topology::tree_split(n);
  const T a = tree(op, values, left);
  const T b = tree(op, values + left, n - left);
  return op == ReduceOp::min ? lower(a, b) : op == ReduceOp::max ? higher(a, b) : sum(a, b);
}

template <typename T>
T finished(const Kernel& kernel, T value) {
  if (kernel.op == ReduceOp::average) {
    value = static_cast<T>(
        value /
        static_cast<std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>(kernel.divisor));
  }
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  }
  return value;
}

/// Reads and writes elements through `get` and `set`, computes in Acc.
template <typename Acc, typename Get, typename Set>
void each(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count, Get get,
          Set set) {
  std::vector<Acc> values(sources.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      values[s] = get(sources[s], i);
    }
    set(i, finished(kernel, tree(kernel.op, values.data(), static_cast<int>(values.size()))));
  }
}

template <typename T>
Bytes reduced_native(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count) {
  Bytes result(count * sizeof(T));
  each<T>(kernel, sources, count, element<T>, [&](std::size_t i, T v) { put(result, i, v); });
  return result;
}

const Half& half_of(DType dtype) {
  return dtype == DType::f16 ? f16 : bf16;
}

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

Bytes reduced_half(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count) {
  Bytes result(count * size_of(kernel.out));
  const auto get = [&](const Bytes& source, std::size_t i) {
    return is_half(kernel.in)
               ? static_cast<float>(half_of(kernel.in).value(element<std::uint16_t>(source, i)))
               : element<float>(source, i);
  };
  const auto set = [&](std::size_t i, float value) {
    if (is_half(kernel.out)) {
      put(result, i, half_of(kernel.out).nearest(static_cast<double>(value)));
    } else {
      put(result, i, value);
    }
  };
  each<float>(kernel, sources, count, get, set);
  return result;
}

double random_float(const Half& format, std::mt19937_64& random) {
  switch (random() % 8) {
    case 0: {  // any bits: any magnitude, denormals, infinities, NaNs
      return format.value(static_cast<std::uint16_t>(random()));
    }
    case 1:
      return random() % 2 == 0 ? 0.0 : -0.0;
    case 2:  // around the smallest numbers
      return std::ldexp(static_cast<double>(random() % 4096) - 2048,
                        1 - format.bias - format.fraction_bits);
    default:
      return std::normal_distribution<double>(0, 100)(random);
  }
}

}  // namespace

double Half::value(std::uint16_t bits) const {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - bias - fraction_bits);
}

std::uint16_t Half::nearest(double value) const {
  const int infinity = ((1 << (15 - fraction_bits)) - 1) << fraction_bits;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(infinity | (1 << (fraction_bits - 1)));
  }
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (std::isinf(value)) {
    return static_cast<std::uint16_t>(sign | infinity);
  }
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place. A carry to 2^(fraction_bits + 1) moves on to the next exponent.
  const double units = std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));
  const double bits = units + std::ldexp(exponent + bias - 1, fraction_bits);
  return static_cast<std::uint16_t>(sign | (bits >= infinity ? infinity : static_cast<int>(bits)));
}

Bytes reduced(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count) {
  if (sources.size() == 1 && kernel.in == kernel.out && kernel.op != ReduceOp::average) {
    return sources[0];
  }
  if (is_half(kernel.in) || is_half(kernel.out)) {
    return reduced_half(kernel, sources, count);
  }
  switch (kernel.in) {
    case DType::f32:
      return reduced_native<float>(kernel, sources, count);
    case DType::f64:
      return reduced_native<double>(kernel, sources, count);
    case DType::i8:
      return reduced_native<std::int8_t>(kernel, sources, count);
    case DType::u8:
      return reduced_native<std::uint8_t>(kernel, sources, count);
    case DType::i32:
      return reduced_native<std::int32_t>(kernel, sources, count);
    default:
      return reduced_native<std::int64_t>(kernel, sources, count);
  }
}

Bytes random_elements(DType dtype, std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    if (is_half(dtype)) {
      put(bytes, i, half_of(dtype).nearest(random_float(half_of(dtype), random)));
    } else if (dtype == DType::f32) {
      put(bytes, i, static_cast<float>(random_float(bf16, random)));
    } else if (dtype == DType::f64) {
      put(bytes, i, random_float(random() % 2 == 0 ? bf16 : f16, random));
    } else {
      const std::uint64_t bits = random();
      std::memcpy(bytes.data() + i * size_of(dtype), &bits, size_of(dtype));
    }
  }
  return bytes;
}

Bytes computed(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count,
               bool streaming, std::size_t misalignment) {
  constexpr std::size_t line = 64;
  constexpr std::byte guard{0xA5};
  std::vector<Bytes> memory;
  std::vector<const void*> addresses;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const std::size_t offset = s * misalignment % line;
    Bytes& at = memory.emplace_back(sources[s].size() + line);
    std::copy(sources[s].begin(), sources[s].end(),
              at.begin() + static_cast<std::ptrdiff_t>(offset));
    addresses.push_back(at.data() + offset);
  }
  const std::size_t size = count * size_of(kernel.out);
  Bytes around(size + 3 * line, guard);
  const std::size_t before = line + misalignment;
  tutti::reduce::reduce(kernel, addresses, around.data() + before, count, streaming);
  const auto begin = around.begin() + static_cast<std::ptrdiff_t>(before);
  const auto end = begin + static_cast<std::ptrdiff_t>(size);
  const auto is_guard = [&](std::byte b) { return b == guard; };
  CHECK(std::all_of(around.begin(), begin, is_guard));
  CHECK(std::all_of(end, around.end(), is_guard));
  return {begin, end};
}

std::vector<Bytes> random_sources(DType dtype, std::size_t n, std::size_t count,
                                  std::mt19937_64& random) {
  std::vector<Bytes> sources;
  for (std::size_t s = 0; s < n; ++s) {
    sources.push_back(random_elements(dtype, count, random));
  }
  return sources;
}

std::vector<Kernel> all_kernels(double divisor) {
  std::vector<Kernel> kernels;
  for (const ReduceOp op : ops) {
    for (const DType dtype : dtypes) {
      kernels.push_back({dtype, dtype, op, divisor});
    }
    for (const DType half : {DType::f16, DType::bf16}) {
      kernels.push_back({half, DType::f32, op, divisor});
      kernels.push_back({DType::f32, half, op, divisor});
    }
  }
  return kernels;
}

}  // namespace reference
