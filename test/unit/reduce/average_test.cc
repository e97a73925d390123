#include <catch2/catch.hpp>
#include <limits>

#include "reference.h"

using namespace reference;

template <typename T>
static T average(DType dtype, const std::vector<T>& values, double divisor) {
  std::vector<const void*> sources;
  sources.reserve(values.size());
  for (const T& value : values) {
    sources.push_back(&value);
  }
  T result{};
  tutti::reduce::reduce({dtype, dtype, ReduceOp::average, divisor}, sources, &result, 1);
  return result;
}

TEST_CASE("integer averages divide towards zero") {
  CHECK(average<std::int32_t>(DType::i32, {-3, -4}, 2) == -3);
  CHECK(average<std::int32_t>(DType::i32, {3, 4}, 2) == 3);
  CHECK(average<std::int64_t>(DType::i64, {std::numeric_limits<std::int64_t>::max() - 1, 0}, 2) ==
        std::numeric_limits<std::int64_t>::max() / 2);
  CHECK(average<std::int8_t>(DType::i8, {-1, -1, -1}, 2) == -1);
}

TEST_CASE("an integer average divides the sum that wrapped, even by more than its type holds") {
  CHECK(average<std::uint8_t>(DType::u8, {200, 100}, 2) == 22);
  CHECK(average<std::int8_t>(DType::i8, {100, 0}, 200) == 0);
  CHECK(average<std::uint8_t>(DType::u8, {255, 0}, 300) == 0);
}

TEST_CASE("float averages divide truly, before they round to 16 bits") {
  CHECK(average<float>(DType::f32, {1, 0, 0}, 3) == 1.0F / 3.0F);
  CHECK(average<float>(DType::f32, {5, 0}, 49) == 5.0F / 49.0F);
  CHECK(average<double>(DType::f64, {1, 0, 0}, 3) == 1.0 / 3.0);
  const std::uint16_t most = f16.nearest(65504);
  CHECK(average<std::uint16_t>(DType::f16, {most, most}, 2) == most);
}

TEST_CASE("one source is divided too, and only averages divide") {
  CHECK(average<float>(DType::f32, {3}, 2) == 1.5F);
  CHECK(average<std::int32_t>(DType::i32, {7}, 2) == 3);
  const float values[] = {1, 2};
  const void* sources[] = {&values[0], &values[1]};
  float result = 0;
  tutti::reduce::reduce({DType::f32, DType::f32, ReduceOp::sum, 2}, sources, &result, 1);
  CHECK(result == 3);
  tutti::reduce::reduce({DType::f32, DType::f32, ReduceOp::max, 2}, sources, &result, 1);
  CHECK(result == 2);
}

TEST_CASE("a divisor that is none is refused") {
  for (const double divisor : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_WITH(average<float>(DType::f32, {1}, divisor), Catch::Contains("f32"));
  }
  for (const double divisor : {0.0, 0.5, 1.5, 1e10}) {
    CHECK_THROWS_WITH(average<std::int32_t>(DType::i32, {1}, divisor), Catch::Contains("i32"));
  }
}
