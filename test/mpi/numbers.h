#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tutti/tensor.h"

/// Elements of any dtype and at any address, as doubles.
namespace numbers {

using tutti::DType;

/// A 16-bit float with this many bits of fraction. `x` must be one of its normal values, or zero.
inline std::uint16_t to_half(double x, int fraction_bits, int bias) {
  if (x == 0) return 0;
  const int exponent = std::ilogb(x);
  const double fraction = std::ldexp(std::abs(x), fraction_bits - exponent);
  const int magnitude =
      ((exponent + bias - 1) << fraction_bits) + static_cast<int>(std::lround(fraction));
  return static_cast<std::uint16_t>(magnitude | (x < 0 ? 0x8000 : 0));
}

inline double from_half(std::uint16_t bits, int fraction_bits, int bias) {
  const int magnitude = bits & 0x7FFF;
  const int exponent = magnitude >> fraction_bits;
  const int fraction = magnitude & ((1 << fraction_bits) - 1);
  const int unit = exponent == 0 ? 0 : 1 << fraction_bits;
  const double value =
      std::ldexp(unit + fraction, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline void put(const tutti::Tensor& tensor, std::size_t i, double value) {
  std::byte* const at = tensor.as<std::byte>() + i * size_of(tensor.dtype());
  switch (tensor.dtype()) {
    case DType::f16:
      return store(at, to_half(value, 10, 15));
    case DType::bf16:
      return store(at, to_half(value, 7, 127));
    case DType::f32:
      return store(at, static_cast<float>(value));
    case DType::f64:
      return store(at, value);
    case DType::i8:
      return store(at, static_cast<std::int8_t>(value));
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

inline double get(const tutti::Tensor& tensor, std::size_t i) {
  const std::byte* const at = tensor.as<std::byte>() + i * size_of(tensor.dtype());
  switch (tensor.dtype()) {
    case DType::f16:
      return from_half(load<std::uint16_t>(at), 10, 15);
    case DType::bf16:
      return from_half(load<std::uint16_t>(at), 7, 127);
    case DType::f32:
      return static_cast<double>(load<float>(at));
    case DType::f64:
      return load<double>(at);
    case DType::i8:
      return load<std::int8_t>(at);
    case DType::u8:
      return load<std::uint8_t>(at);
    case DType::i32:
      return load<std::int32_t>(at);
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(at));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

/// How far a quotient may be off, relatively: one unit in the last place.
inline double precision(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return std::ldexp(1, -10);
    case DType::bf16:
      return std::ldexp(1, -7);
    case DType::f32:
      return std::ldexp(1, -23);
    case DType::f64:
      return std::ldexp(1, -52);
    default:
      return 0;
  }
}

inline bool is_integer(DType dtype) {
  return precision(dtype) == 0;
}

}  // namespace numbers
