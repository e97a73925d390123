#include "ps/protocol/compression.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "unit/errors.h"
#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

constexpr Compression two_bits{Encoding::two_bits, 0.5F};
constexpr Compression one_bit{Encoding::one_bit, 0};

/// The elements that servers get of a push.
Floats sent(Compressor& compressor, const Compression& how, const Floats& values,
            Contribution like = {}) {
  like.piece.key = "w";
  like.shape = {static_cast<std::int64_t>(values.size())};
  like.data = std::as_bytes(std::span(values));
  compressor.compress(like, how, {0, values.size()});
  Floats received(values.size());
  if (like.compression.encoding == Encoding::none) {
    std::memcpy(received.data(), like.data.data(), like.data.size());
  } else {
    CHECK(like.data.size() == encoded_bytes(how.encoding, DType::f32, values.size()));
    std::memcpy(received.data(), decoded(like, values.size()).data(), values.size() * 4);
  }
  return received;
}

}  // namespace

TEST_CASE("in two bits the unsent part is added to the next gradient") {
  Compressor compressor;
  CHECK(sent(compressor, two_bits, {0.3F, -0.3F, 2, 0}) == Floats{0, 0, 0.5F, 0});
  CHECK(sent(compressor, two_bits, {0.3F, -0.3F, 0, 0}) == Floats{0.5F, -0.5F, 0.5F, 0});
  CHECK(sent(compressor, two_bits, {0, 0, 0, 0}) == Floats{0, 0, 0.5F, 0});
}

TEST_CASE("in one bit each element is 1 or -1, and the error comes back") {
  Compressor compressor;
  CHECK(sent(compressor, one_bit, {0.25F, -3}) == Floats{1, -1});
  CHECK(sent(compressor, one_bit, {0, 0}) == Floats{-1, -1});
}

TEST_CASE("in 16 bits f32 is rounded, and other types travel as they are") {
  Compressor compressor;
  const Compression fp16{Encoding::fp16, 0};
  CHECK(sent(compressor, fp16, {1, 2049}) == Floats{1, 2048});
  CHECK(sent(compressor, {Encoding::bf16, 0}, {1, 257}) == Floats{1, 256});
  CHECK_FALSE(can_carry(Encoding::fp16, DType::f64));
}

TEST_CASE("fewer bytes travel") {
  CHECK(encoded_bytes(Encoding::none, DType::f32, 1024) == 4096);
  CHECK(encoded_bytes(Encoding::bf16, DType::f32, 1024) == 2048);
  CHECK(encoded_bytes(Encoding::two_bits, DType::f32, 1024) == 256);
  CHECK(encoded_bytes(Encoding::one_bit, DType::f32, 1024) == 128);
  CHECK(encoded_bytes(Encoding::one_bit, DType::f32, 1025) == 132);
}

TEST_CASE("only sums of gradients are compressed") {
  Compressor compressor;
  const Floats values{0.1F, 0.2F};
  CHECK(sent(compressor, two_bits, values, {.kind = Kind::init}) == values);
  CHECK(sent(compressor, two_bits, values, {.kind = Kind::broadcast}) == values);
  CHECK(sent(compressor, two_bits, values, {.op = ReduceOp::max}) == values);
  CHECK(sent(compressor, two_bits, values, {.kind = Kind::pushpull}) == Floats{0, 0});
}

TEST_CASE("a NaN or an infinity arrives as such, and the push after it is as any other") {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinite, -infinite}) {
    for (const Compression& how : {two_bits, one_bit}) {
      Compressor compressor;
      const Floats received = sent(compressor, how, {bad, 1});
      CHECK_FALSE(std::isfinite(received[0]));
      CHECK(std::isfinite(received[1]));
      Compressor fresh;
      CHECK(sent(compressor, how, {0.25F, 0})[0] == sent(fresh, how, {0.25F, 0})[0]);
      CHECK(sent(compressor, how, {-0.25F, 0})[0] == sent(fresh, how, {-0.25F, 0})[0]);
    }
  }
}

TEST_CASE("a tensor of another size begins without an error of its own") {
  Compressor compressor;
  sent(compressor, two_bits, {0.4F, 0.4F});
  CHECK(sent(compressor, two_bits, {0.2F}) == Floats{0});
}

TEST_CASE("a kind or threshold that is none is refused") {
  CHECK(compression_named("2bit", 0.25) == Compression{Encoding::two_bits, 0.25F});
  CHECK(compression_named("1bit", 0) == one_bit);
  CHECK(compression_named("fp16", 7) == Compression{Encoding::fp16, 0});
  for (const double bad : {0.0, -1.0, std::nan(""), 1e300, 1e-300}) {
    CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { compression_named("2bit", bad); }),
               Contains("the threshold is") && Contains("above 0"));
  }
  text_of(ErrorCode::invalid_argument, [] { compression_named("1bit", -0.5); });
  CHECK_THAT(text_of(ErrorCode::unsupported, [] { compression_named("2bits", 1); }),
             Contains("did you mean '2bit'") && Contains("'bf16'"));
}

TEST_CASE("a server merges gradients in fewer bits, and gives the sum back whole") {
  TableJob job;
  std::vector<Compressor> compressors(2);
  const Floats values{1, -1, 0.25F};
  for (int worker = 0; worker < 2; ++worker) {
    Contribution said{.sequence = job.next(worker),
                      .piece = {"w", 0, 1},
                      .kind = Kind::pushpull,
                      .shape = {3},
                      .data = std::as_bytes(std::span(values))};
    compressors[static_cast<std::size_t>(worker)].compress(said, two_bits, {0, 3});
    CHECK(said.data.size() == 4);
    job.table().receive(worker, said);
  }
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[0].values == Floats{1, -1, 0});
}

TEST_CASE("a server refuses integers in two bits, and values that are no gradients") {
  TableJob job(1);
  TableJob other(1);
  const std::uint32_t word = 0;
  const auto data = std::as_bytes(std::span(&word, 1));
  Contribution said{.sequence = 1,
                    .piece = {"w", 0, 1},
                    .dtype = DType::i32,
                    .shape = {3},
                    .compression = two_bits,
                    .data = data};
  job.table().receive(0, said);
  CHECK_THAT(job.refusal(0), Contains("push of i32 cannot be compressed with '2bit'"));
  said.kind = Kind::init;
  said.dtype = DType::f32;
  other.table().receive(0, said);
  CHECK_THAT(other.refusal(0), Contains("init of f32 cannot be compressed with '2bit'"));
}
