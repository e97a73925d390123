#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "reference.h"

using namespace reference;

using Bits16 = std::vector<std::uint16_t>;

static std::vector<float> widened(DType half, const Bits16& bits) {
  std::vector<float> result(bits.size());
  const void* source = bits.data();
  tutti::reduce::reduce({half, DType::f32}, {&source, 1}, result.data(), bits.size());
  return result;
}

static Bits16 narrowed(DType half, const std::vector<float>& values) {
  Bits16 result(values.size());
  const void* source = values.data();
  tutti::reduce::reduce({DType::f32, half}, {&source, 1}, result.data(), values.size());
  return result;
}

static Bits16 all_halves() {
  Bits16 all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  return all;
}

static void check_every_half(DType dtype, const Half& format) {
  const Bits16 all = all_halves();
  const std::vector<float> wide = widened(dtype, all);
  const Bits16 back = narrowed(dtype, wide);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(name(dtype), i, tutti::reduce::simd_level());
    const auto expected = static_cast<float>(format.value(all[i]));
    if (std::isnan(expected)) {
      REQUIRE(std::bit_cast<std::uint32_t>(wide[i]) == 0x7FC00000);
      REQUIRE(back[i] == format.nearest(std::numeric_limits<double>::quiet_NaN()));
    } else {
      REQUIRE(std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(expected));
      REQUIRE(back[i] == all[i]);
    }
  }
}

TEST_CASE("each of the 65536 f16 and bf16 values becomes its f32 and comes back") {
  at_every_level([] {
    check_every_half(DType::f16, f16);
    check_every_half(DType::bf16, bf16);
  });
}

/// Every half, the middle to the next one, and the floats around both.
static std::vector<float> boundaries(const Half& format) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65535; ++bits) {
    const double a = format.value(static_cast<std::uint16_t>(bits));
    const double b = format.value(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(a) || !std::isfinite(b)) {
      continue;
    }
    for (const auto value : {static_cast<float>(a), static_cast<float>((a + b) / 2)}) {
      values.push_back(value);
      values.push_back(std::nextafter(value, std::numeric_limits<float>::infinity()));
      values.push_back(std::nextafter(value, -std::numeric_limits<float>::infinity()));
    }
  }
  return values;
}

static std::vector<float> random_bits(std::size_t count) {
  std::mt19937_64 random(5);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  }
  return values;
}

static void check_rounding(DType dtype, const Half& format, const std::vector<float>& values) {
  Bits16 expected;
  for (const float value : values) {
    expected.push_back(format.nearest(static_cast<double>(value)));
  }
  at_every_level([&] {
    const Bits16 halves = narrowed(dtype, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (halves[i] != expected[i]) {
        CAPTURE(name(dtype), values[i], tutti::reduce::simd_level());
        REQUIRE(halves[i] == expected[i]);
      }
    }
  });
}

TEST_CASE("f32 rounds to the nearest half, ties to even, on and around every boundary") {
  check_rounding(DType::f16, f16, boundaries(f16));
  check_rounding(DType::bf16, bf16, boundaries(bf16));
}

TEST_CASE("any f32 bits round as the reference does") {
  check_rounding(DType::f16, f16, random_bits(1'000'000));
  check_rounding(DType::bf16, bf16, random_bits(1'000'000));
}

TEST_CASE("a number above the largest half becomes infinity, one below the smallest zero") {
  const std::vector<float> values = {65504,  65519.996F, 65520,    1e30F,
                                     -65520, 0x1p-24F,   0x1p-25F, -0x1p-25F};
  CHECK(narrowed(DType::f16, values) ==
        Bits16{0x7BFF, 0x7BFF, 0x7C00, 0x7C00, 0xFC00, 0x0001, 0x0000, 0x8000});
  CHECK(narrowed(DType::bf16, {3.4e38F, std::numeric_limits<float>::denorm_min(), 0x1p-133F}) ==
        Bits16{0x7F80, 0x0000, 0x0001});
}

TEST_CASE("a sum of 16-bit floats rounds once") {
  // 2048 + 1 is no f16; rounded after each step the ones would be lost.
  const Bits16 values = {f16.nearest(2048), f16.nearest(1), f16.nearest(1), f16.nearest(1)};
  const void* sources[] = {&values[0], &values[1], &values[2], &values[3]};
  std::uint16_t result = 0;
  tutti::reduce::reduce({DType::f16, DType::f16}, sources, &result, 1);
  CHECK(f16.value(result) == 2052);  // 2051, a tie, to even
}
