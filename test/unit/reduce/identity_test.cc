#include <catch2/catch.hpp>

#include "reference.h"

using namespace reference;

TEST_CASE("an operation's identity changes no result, before or after the other source") {
  std::mt19937_64 random(6);
  for (const Kernel& kernel : all_kernels(1)) {
    if (kernel.in != kernel.out) {
      continue;
    }
    CAPTURE(name(kernel.op), name(kernel.in));
    constexpr std::size_t count = 203;
    const Bytes values = random_elements(kernel.in, count, random);
    Bytes identity(count * size_of(kernel.in) + 1, std::byte{0xA5});
    tutti::reduce::fill_identity(kernel.in, kernel.op, identity.data(), count);
    CHECK(identity.back() == std::byte{0xA5});
    identity.pop_back();
    Bytes zeros(identity.size());
    if (kernel.op == ReduceOp::sum || kernel.op == ReduceOp::average) {
      REQUIRE((identity == zeros));
      continue;
    }
    // Each value is combined with itself. This gives the form of NaNs in any operation.
    const Bytes expected = reduced(kernel, {values, values}, count);
    REQUIRE((computed(kernel, {values, identity}, count) == expected));
    REQUIRE((computed(kernel, {identity, values}, count) == expected));
  }
}

TEST_CASE("no elements are filled with nothing") {
  tutti::reduce::fill_identity(DType::f32, ReduceOp::min, nullptr, 0);
  SUCCEED();
}
