#include <catch2/catch.hpp>

#include "tutti/tutti.h"

using namespace tutti;
using namespace std::string_literals;

TEST_CASE("a shape counts its elements; a scalar has one, a zero dimension none") {
  CHECK(Shape{2, 3}.count() == 6);
  CHECK(Shape{}.count() == 1);
  CHECK(Shape{4, 0}.count() == 0);
  CHECK(Shape{2, 3}.describe() == "(2, 3)");
  CHECK(Shape{2, 3} != Shape{3, 2});
}

TEST_CASE("a shape that cannot be is refused") {
  CHECK_THROWS_AS((Shape{-1}), Error);
  CHECK_THROWS_AS((Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST_CASE("a tensor with elements needs memory") {
  CHECK_THROWS_AS(Tensor(nullptr, {2}, DType::f32), Error);
  CHECK(Tensor(nullptr, {0}, DType::f32).bytes() == 0);
  CHECK_THROWS_WITH(Tensor(nullptr, {0}, DType{13}), Catch::Contains("dtype number 13"));
  // Eight times as many bytes are none in 64 bits.
  float number = 0;
  CHECK_THROWS_WITH(Tensor(&number, {std::int64_t{1} << 61}, DType::f64),
                    Catch::Contains("f64 (2305843009213693952) has more bytes"));
  CHECK(Tensor().count() == 0);
}

TEST_CASE("keys compare and describe themselves by kind") {
  CHECK(Key(3).describe() == "3");
  CHECK(Key("fc1").describe() == "'fc1'");
  CHECK(Key(3) != Key("3"));
}

TEST_CASE("a key made of a null pointer is refused as an argument") {
  const char* const missing = nullptr;
  try {
    const Key key(missing);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), Catch::Contains("key") && Catch::Contains("null pointer"));
  }
}

TEST_CASE("a key describes itself in one short line whatever it holds") {
  CHECK(Key("\n[error] forged\x1b[31m").describe() == R"('\n[error] forged\x1b[31m')");
  CHECK(Key("a\0b"s).describe() == R"('a\x00b')");
  CHECK(Key(std::string(1024, '\0')).describe().size() < 600);
  CHECK(Key(std::string(1024, 'k')).describe() ==
        "'" + std::string(64, 'k') + "..." + std::string(64, 'k') + "' (1024 bytes)");
}

TEST_CASE("the message of an error is one line, and a null character does not end it") {
  const Error error(ErrorCode::internal, "a\0b\nc\x9b: the reason"s);
  CHECK(std::string(error.what()) == R"(a\x00b\nc\x9b: the reason)");
  const Error longer(ErrorCode::internal, std::string(100'000, 'x') + ": the reason");
  CHECK(std::string(longer.what()).size() < 5000);
  CHECK_THAT(longer.what(), Catch::EndsWith(": the reason (100012 bytes)"));
}

TEST_CASE("shards follow one another, cover everything, and differ by one element at most") {
  for (const std::size_t count : {0U, 1U, 2U, 6U, 7U, 100U, 1'000'003U}) {
    for (int size = 1; size <= 9; ++size) {
      std::size_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Shard one = shard(count, rank, size);
        CHECK(one.begin == end);
        const std::size_t even = count / static_cast<std::size_t>(size);
        CHECK((one.count() == even || one.count() == even + 1));
        end = one.end;
      }
      CHECK(end == count);
    }
  }
  CHECK(shard(10, 1, 3) == Shard{3, 6});
}

TEST_CASE("a shard is right where count times rank has more than 64 bits, and of a rank there is") {
  const std::size_t most = (std::size_t{1} << 63) - 1;
  CHECK(shard(most, 6, 7) == Shard{most / 7 * 6, most});
  CHECK_THROWS_WITH(shard(10, 3, 3), Catch::Contains("rank 3") && Catch::Contains("0 to 2"));
  CHECK_THROWS_AS(shard(10, -1, 3), Error);
}

TEST_CASE("a tensor of a GPU may have a stream, CUDA's default one among them") {
  float element = 0;
  const Tensor plain(&element, {}, DType::f32, {Device::Kind::gpu, 1});
  CHECK(plain.stream().is_none());
  CHECK(plain.on(nullptr).stream() == DeviceStream::legacy());
  CHECK_FALSE(DeviceStream::legacy() == DeviceStream::per_thread());
  const Tensor streamed = plain.on(DeviceStream::per_thread());
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA's name for that stream
  CHECK(streamed.stream().handle() == reinterpret_cast<CUstream_st*>(std::uintptr_t{2}));
  CHECK(streamed.data() == &element);
  CHECK_THROWS_WITH(Tensor(&element, {}, DType::f32).on(nullptr),
                    Catch::Contains("a tensor on cpu(0) cannot have a stream"));
}
