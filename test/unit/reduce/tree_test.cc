#include <catch2/catch.hpp>

#include "reference.h"

using namespace reference;

static std::string describe(const Kernel& kernel) {
  return std::string(name(kernel.op)) + " of " + std::string(name(kernel.in)) + " to " +
         std::string(name(kernel.out));
}

static void check_against_reference(const Kernel& kernel, std::size_t n, std::size_t count,
                                    std::mt19937_64& random) {
  const std::vector<Bytes> sources = random_sources(kernel.in, n, count, random);
  const Bytes expected = reduced(kernel, sources, count);
  at_every_level([&] {
    CAPTURE(describe(kernel), n, count, tutti::reduce::simd_level());
    for (const std::size_t misalignment : {0U, 1U, 8U, 20U}) {
      REQUIRE((computed(kernel, sources, count, false, misalignment) == expected));
    }
    REQUIRE((computed(kernel, sources, count, true, 8) == expected));
    REQUIRE((computed(kernel, sources, count, true, 1) == expected));
  });
}

TEST_CASE("every operation on every dtype has the canonical tree's bits, at every SIMD level") {
  std::mt19937_64 random(1);
  for (const Kernel& kernel : all_kernels(3)) {
    for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 17U}) {
      for (const std::size_t count : {0U, 1U, 2U, 3U, 15U, 64U, 67U, 129U}) {
        check_against_reference(kernel, n, count, random);
      }
      check_against_reference(kernel, n, random() % 300, random);
    }
  }
}

TEST_CASE("more elements than a block or more sources than loops change no bit") {
  std::mt19937_64 random(2);
  for (const Kernel& kernel : all_kernels(33)) {
    check_against_reference(kernel, 5, 16'384 + 37, random);
    check_against_reference(kernel, 33, 1000, random);
  }
  check_against_reference({DType::f32, DType::f32}, 300, 2049, random);
}

TEST_CASE("the result may take the place of any source") {
  std::mt19937_64 random(3);
  for (const Kernel& kernel : all_kernels(7)) {
    if (size_of(kernel.in) != size_of(kernel.out)) {
      continue;
    }
    for (const std::size_t n : {1U, 2U, 3U, 4U, 7U, 8U, 17U}) {
      const std::size_t count = 1 + random() % 5000;
      const bool streaming = random() % 2 == 0;
      const std::vector<Bytes> sources = random_sources(kernel.in, n, count, random);
      const Bytes expected = reduced(kernel, sources, count);
      at_every_level([&] {
        for (std::size_t place = 0; place < n; ++place) {
          CAPTURE(describe(kernel), n, count, place, streaming);
          std::vector<Bytes> memory = sources;
          std::vector<const void*> addresses;
          addresses.reserve(sources.size());
          for (const Bytes& source : memory) {
            addresses.push_back(source.data());
          }
          tutti::reduce::reduce(kernel, addresses, memory[place].data(), count, streaming);
          REQUIRE((memory[place] == expected));
        }
      });
    }
  }
}

TEST_CASE("an element's bits do not depend on its place in the array") {
  std::mt19937_64 random(4);
  const std::vector<Bytes> one = random_sources(DType::bf16, 6, 1, random);
  constexpr std::size_t count = 500;
  std::vector<Bytes> same;
  for (const Bytes& element : one) {
    Bytes& repeated = same.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      repeated.insert(repeated.end(), element.begin(), element.end());
    }
  }
  const Kernel kernel{DType::bf16, DType::bf16};
  const Bytes result = computed(kernel, same, count);
  for (std::size_t i = 1; i < count; ++i) {
    REQUIRE(result[2 * i] == result[0]);
    REQUIRE(result[2 * i + 1] == result[1]);
  }
}

TEST_CASE("a reduction that no kernel does is an internal error that names it") {
  using tutti::reduce::reduce;
  float value = 1;
  const void* source = &value;
  const std::span<const void* const> one(&source, 1);
  CHECK_THROWS_WITH(reduce({DType::f32, DType::i32}, one, &value, 1),
                    Catch::Contains("f32") && Catch::Contains("i32"));
  CHECK_THROWS_WITH(reduce({DType::f16, DType::bf16}, one, &value, 1), Catch::Contains("bf16"));
  CHECK_THROWS_WITH(reduce({DType::f64, DType::f32}, one, &value, 1), Catch::Contains("f64"));
  CHECK_THROWS_WITH(reduce({DType::f32, DType::f32}, {}, &value, 1), Catch::Contains("0 sources"));
}
