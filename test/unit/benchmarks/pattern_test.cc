#include "benchmarks/allreduce/pattern.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace tutti;
using bench::Pattern;

namespace {

constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32, DType::f64,
                            DType::i8,  DType::u8,   DType::i32, DType::i64};

/// The sum that a right allreduce yields, for f32 and i64.
template <typename T>
std::vector<T> sum_of(const Pattern& pattern, int ranks, std::size_t count, std::uint64_t turn) {
  std::vector<T> sum(count);
  std::vector<T> one(count);
  for (int rank = 0; rank < ranks; ++rank) {
    pattern.fill(one.data(), count, rank, turn);
    for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
  }
  return sum;
}

}  // namespace

TEMPLATE_TEST_CASE("the sum of all ranks' inputs has no wrong element", "", float, std::int64_t) {
  const DType dtype = std::is_same_v<TestType, float> ? DType::f32 : DType::i64;
  const std::size_t count = GENERATE(0U, 1U, 250U, 251U, 16064U, 16065U, 40000U);
  const int ranks = GENERATE(1, 3, 8, 127);
  const Pattern pattern(dtype, ranks);
  for (const std::uint64_t turn : {0U, 1U, 77U}) {
    const auto sum = sum_of<TestType>(pattern, ranks, count, turn);
    CHECK(pattern.wrong_in_sum(sum.data(), count, turn) == 0);
  }
}

TEST_CASE("each wrong element is counted") {
  const Pattern pattern(DType::f32, 4);
  auto sum = sum_of<float>(pattern, 4, 40000, 5);
  for (const std::size_t i : {0U, 16063U, 16064U, 39999U}) sum[i] += 1;
  CHECK(pattern.wrong_in_sum(sum.data(), sum.size(), 5) == 4);
}

TEST_CASE(
    "the sum of another turn, a missing rank and a shifted slice are wrong almost everywhere") {
  const Pattern pattern(DType::f32, 4);
  const auto sum = sum_of<float>(pattern, 4, 10000, 5);
  CHECK(pattern.wrong_in_sum(sum.data(), 10000, 6) > 7000);
  const auto three = sum_of<float>(pattern, 3, 10000, 5);
  CHECK(pattern.wrong_in_sum(three.data(), 10000, 5) > 7000);
  for (const std::size_t shift : {1U, 16U, 64U, 1024U, 4096U}) {
    CHECK(pattern.wrong_in_sum(sum.data() + shift, 5000, 5) > 3500);
    CHECK(pattern.wrong_in_sum(sum.data() + shift, 5000, 5, shift) == 0);
  }
}

TEST_CASE("a copy is right for its own rank and turn alone, in every dtype") {
  for (const DType dtype : dtypes) {
    const Pattern pattern(dtype, 3);
    std::vector<std::byte> data(1000 * size_of(dtype));
    pattern.fill(data.data(), 1000, 2, 9);
    CHECK(pattern.wrong_in_copy(data.data(), 1000, 2, 9) == 0);
    CHECK(pattern.wrong_in_copy(data.data(), 1000, 1, 9) > 700);
    CHECK(pattern.wrong_in_copy(data.data(), 1000, 2, 10) > 700);
  }
}

TEST_CASE("sixteen-bit floats hold the numbers that f32 holds") {
  const Pattern exact(DType::f32, 3);
  std::vector<float> wide(1000);
  exact.fill(wide.data(), wide.size(), 1, 4);
  std::vector<std::uint16_t> narrow(1000);
  Pattern(DType::bf16, 3).fill(narrow.data(), narrow.size(), 1, 4);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const std::uint32_t bits = std::uint32_t{narrow[i]} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    REQUIRE(value == wide[i]);
  }
  Pattern(DType::f16, 3).fill(narrow.data(), narrow.size(), 1, 4);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const int exponent = narrow[i] >> 10;
    const float fraction = static_cast<float>(narrow[i] & 1023) / 1024;
    const float value = exponent == 0 ? fraction : std::ldexp(1 + fraction, exponent - 15);
    REQUIRE(value == wide[i]);
  }
}

TEST_CASE("averages, minima and maxima of all ranks' inputs have no wrong element") {
  const int ranks = GENERATE(1, 3, 8, 11);
  constexpr std::size_t count = 1000;
  for (const ReduceOp op : {ReduceOp::average, ReduceOp::min, ReduceOp::max}) {
    const Pattern pattern(DType::i8, ranks, op);
    std::vector<int> result(count);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::int8_t> one(count);
      pattern.fill(one.data(), count, rank, 3);
      for (std::size_t i = 0; i < count; ++i) {
        if (op == ReduceOp::average) result[i] += one[i];
        if (op == ReduceOp::min) result[i] = rank == 0 ? one[i] : std::min<int>(result[i], one[i]);
        if (op == ReduceOp::max) result[i] = std::max<int>(result[i], one[i]);
      }
    }
    std::vector<std::int8_t> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      const int divisor = op == ReduceOp::average ? ranks : 1;
      CHECK(result[i] % divisor == 0);
      CHECK(result[i] <= 127);
      expected[i] = static_cast<std::int8_t>(result[i] / divisor);
    }
    CHECK(pattern.wrong_in_sum(expected.data(), count, 3) == 0);
    expected[7] = static_cast<std::int8_t>(expected[7] + 1);
    CHECK(pattern.wrong_in_sum(expected.data(), count, 3) == 1);
  }
}

TEST_CASE("a part of a copy is right at its own place alone") {
  const Pattern pattern(DType::i32, 4);
  std::vector<std::int32_t> whole(1000);
  pattern.fill(whole.data(), whole.size(), 2, 5);
  CHECK(pattern.wrong_in_copy(whole.data() + 300, 500, 2, 5, 300) == 0);
  CHECK(pattern.wrong_in_copy(whole.data() + 300, 500, 2, 5, 301) > 350);
}
