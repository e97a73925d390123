#include "kvstore/overlap.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>

using namespace tutti;

namespace {

std::array<std::int8_t, 64> memory;

Tensor bytes(std::int64_t begin, std::int64_t end) {
  return {memory.data() + begin, {end - begin}, DType::i8};
}

/// Replaces `ins` by what the backend gets.
void detach_overlapping_inputs(std::vector<Values>& ins, const std::vector<Values>& outs) {
  std::vector<Values> detached;
  OverlapMemory kept;
  const auto result = detach_overlapping_inputs(ins, outs, detached, kept);
  ins = std::vector<Values>(result.begin(), result.end());
}

bool copied(const Tensor& now, const Tensor& before) {
  return now.data() != before.data();
}

}  // namespace

TEST_CASE("inputs that are their own key's outputs stay where they are") {
  std::vector<Values> ins{{bytes(0, 8), bytes(8, 16)}, {bytes(16, 24)}};
  const std::vector<Values> before = ins;
  detach_overlapping_inputs(ins, {{bytes(8, 16), bytes(0, 8)}, {bytes(16, 24)}});
  CHECK_FALSE(copied(ins[0][0], before[0][0]));
  CHECK_FALSE(copied(ins[0][1], before[0][1]));
  CHECK_FALSE(copied(ins[1][0], before[1][0]));
}

TEST_CASE("only the input that lies in another key's output is copied, with its contents") {
  memory[9] = 42;
  std::vector<Values> ins{{bytes(0, 8), bytes(9, 10)}, {bytes(16, 24)}};
  detach_overlapping_inputs(ins, {{bytes(32, 40)}, {bytes(8, 16)}});
  CHECK(ins[0][0].data() == memory.data());
  REQUIRE(ins[0][1].data() != memory.data() + 9);
  memory[9] = 0;
  CHECK(*ins[0][1].as<std::int8_t>() == 42);
  CHECK(ins[1][0].data() == memory.data() + 16);
}

TEST_CASE("an output shifted against its own input forces a copy") {
  std::vector<Values> ins{{bytes(0, 8)}};
  detach_overlapping_inputs(ins, {{bytes(4, 12)}});
  CHECK(ins[0][0].data() != memory.data());
}

TEST_CASE("an output that ends where an input begins does not overlap it") {
  std::vector<Values> ins{{bytes(8, 16)}, {}};
  detach_overlapping_inputs(ins, {{bytes(24, 32)}, {bytes(0, 8), bytes(16, 24), bytes(12, 12)}});
  CHECK(ins[0][0].data() == memory.data() + 8);
}

TEST_CASE("copies are made exactly where a comparison of all pairs finds an overlap") {
  std::mt19937 random(7);
  const auto number = [&](int below) {
    return static_cast<std::int64_t>(random() % unsigned(below));
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Values> ins;
    std::vector<Values> outs;
    for (int key = 0; key < 3; ++key) {
      const auto any = [&] {
        const std::int64_t begin = number(60);
        return bytes(begin, begin + number(5));
      };
      ins.push_back({any(), any()});
      outs.push_back({any()});
    }
    const std::vector<Values> before = ins;
    detach_overlapping_inputs(ins, outs);
    for (std::size_t key = 0; key < 3; ++key) {
      for (std::size_t i = 0; i < 2; ++i) {
        const Tensor& in = before[key][i];
        bool expected = false;
        for (std::size_t k = 0; k < 3; ++k) {
          const Tensor& out = outs[k][0];
          const bool overlap = in.bytes() > 0 && out.bytes() > 0 &&
                               in.as<char>() < out.as<char>() + out.bytes() &&
                               out.as<char>() < in.as<char>() + in.bytes();
          expected |= overlap && !(k == key && in.data() == out.data());
        }
        REQUIRE(copied(ins[key][i], in) == expected);
      }
    }
  }
}

TEST_CASE("each call's tensors are looked at where they lie now, whatever the call before had") {
  OverlapMemory kept;
  std::vector<Values> detached;
  const std::vector<std::vector<Values>> apart{{{bytes(0, 8)}, {bytes(8, 16)}, {bytes(16, 24)}},
                                               {{bytes(16, 24)}, {bytes(0, 8)}, {bytes(8, 16)}}};
  for (const std::vector<Values>& lists : apart) {
    const std::span<const Values> ins(lists);
    CHECK(tutti::detach_overlapping_inputs(ins, lists, detached, kept).data() == ins.data());
  }
  const std::vector<Values> shifted{{bytes(4, 12)}, {bytes(0, 4)}, {bytes(10, 16)}};
  const auto result = tutti::detach_overlapping_inputs(shifted, shifted, detached, kept);
  CHECK(copied(result[0][0], shifted[0][0]));
  CHECK_FALSE(copied(result[1][0], shifted[1][0]));
  CHECK(copied(result[2][0], shifted[2][0]));
}
