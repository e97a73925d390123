#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "reference.h"

using namespace reference;

template <typename T>
static T fold(DType dtype, ReduceOp op, const std::vector<T>& values) {
  std::vector<const void*> sources;
  sources.reserve(values.size());
  for (const T& value : values) {
    sources.push_back(&value);
  }
  T result{};
  tutti::reduce::reduce({dtype, dtype, op}, sources, &result, 1);
  return result;
}

static constexpr float inf = std::numeric_limits<float>::infinity();
static constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();

static std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

TEST_CASE("min and max of floats are NaN wherever a NaN stands") {
  at_every_level([] {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      for (std::size_t place = 0; place < 5; ++place) {
        std::vector<float> values = {1, -2, inf, -inf, 5};
        values[place] = -nan32;
        CHECK(bits_of(fold(DType::f32, op, values)) == 0x7FC00000);
        std::vector<double> doubles(values.begin(), values.end());
        CHECK(std::isnan(fold(DType::f64, op, doubles)));
        std::vector<std::uint16_t> halves(5, f16.nearest(1));
        halves[place] = 0xFC01;  // a signalling NaN
        CHECK(fold(DType::f16, op, halves) == 0x7E00);
        halves.assign(5, bf16.nearest(1));
        halves[place] = 0xFF81;
        CHECK(fold(DType::bf16, op, halves) == 0x7FC0);
      }
    }
  });
}

TEST_CASE("a NaN sum has one form, whichever NaNs went in") {
  at_every_level([] {
    const auto payload = std::bit_cast<float>(0xFFC12345U);
    const auto signalling = std::bit_cast<float>(0x7F800001U);
    CHECK(bits_of(fold<float>(DType::f32, ReduceOp::sum, {payload, 1})) == 0x7FC00000);
    CHECK(bits_of(fold<float>(DType::f32, ReduceOp::sum, {1, signalling})) == 0x7FC00000);
    CHECK(bits_of(fold<float>(DType::f32, ReduceOp::sum, {payload, signalling})) == 0x7FC00000);
    CHECK(bits_of(fold<float>(DType::f32, ReduceOp::sum, {inf, -inf})) == 0x7FC00000);
    CHECK(std::bit_cast<std::uint64_t>(fold<double>(DType::f64, ReduceOp::sum,
                                                    {std::numeric_limits<double>::infinity(),
                                                     -std::numeric_limits<double>::infinity()})) ==
          0x7FF8000000000000);
  });
}

TEST_CASE("a copy of one source keeps every bit, those of NaNs included") {
  const auto signalling = std::bit_cast<float>(0xFF812345U);
  CHECK(bits_of(fold<float>(DType::f32, ReduceOp::sum, {signalling})) == 0xFF812345);
  CHECK(fold<std::uint16_t>(DType::f16, ReduceOp::max, {0xFC01}) == 0xFC01);
}

TEST_CASE("minus zero is below zero, in any order") {
  at_every_level([] {
    CHECK(std::signbit(fold<float>(DType::f32, ReduceOp::min, {0.0F, -0.0F})));
    CHECK(std::signbit(fold<float>(DType::f32, ReduceOp::min, {-0.0F, 0.0F})));
    CHECK_FALSE(std::signbit(fold<float>(DType::f32, ReduceOp::max, {0.0F, -0.0F})));
    CHECK_FALSE(std::signbit(fold<float>(DType::f32, ReduceOp::max, {-0.0F, 0.0F})));
    CHECK(std::signbit(fold<double>(DType::f64, ReduceOp::min, {0.0, -0.0})));
    CHECK_FALSE(std::signbit(fold<double>(DType::f64, ReduceOp::max, {-0.0, 0.0})));
  });
}

TEST_CASE("denormals add up") {
  at_every_level([] {
    constexpr float tiny = std::numeric_limits<float>::denorm_min();
    CHECK(fold<float>(DType::f32, ReduceOp::sum, {tiny, tiny, tiny}) == 3 * tiny);
    CHECK(fold<std::uint16_t>(DType::f16, ReduceOp::sum, {0x0001, 0x0002}) == 0x0003);
    CHECK(fold<std::uint16_t>(DType::bf16, ReduceOp::sum, {0x0001, 0x8003}) == 0x8002);
  });
}

TEST_CASE("a half's sum that is too large becomes infinity, one that returns in time does not") {
  at_every_level([] {
    const std::uint16_t most = f16.nearest(65504);
    const std::uint16_t least = f16.nearest(-65504);
    CHECK(fold<std::uint16_t>(DType::f16, ReduceOp::sum, {most, most}) == 0x7C00);
    CHECK(fold<std::uint16_t>(DType::f16, ReduceOp::sum, {most, most, least, least}) == 0);
  });
}

TEST_CASE("integers of 64 bits wrap and compare over their whole range") {
  at_every_level([] {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    CHECK(fold<std::int64_t>(DType::i64, ReduceOp::sum, {most, 1}) == least);
    CHECK(fold<std::int64_t>(DType::i64, ReduceOp::min, {most, least, 0}) == least);
    CHECK(fold<std::int64_t>(DType::i64, ReduceOp::max, {least, most, 0}) == most);
    CHECK(fold<std::uint8_t>(DType::u8, ReduceOp::max, {127, 128}) == 128);
    CHECK(fold<std::int8_t>(DType::i8, ReduceOp::max, {127, -128}) == 127);
  });
}
