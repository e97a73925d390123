#include "kvstore/overlap.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "../errors.h"

using namespace tutti;

namespace {

std::array<std::int8_t, 64> memory;

Tensor bytes(std::int64_t begin, std::int64_t end) {
  return {memory.data() + begin, {end - begin}, DType::i8};
}

const std::array<Key, 3> keys{0, 1, "two"};

void sort_outputs(const std::vector<Values>& outs, OverlapMemory& kept) {
  tutti::sort_outputs({.method = Method::pull, .keys = {keys.data(), outs.size()}, .outs = outs},
                      kept);
}

/// Replaces `ins` by what the backend gets.
void detach_overlapping_inputs(std::vector<Values>& ins, const std::vector<Values>& outs) {
  std::vector<Values> detached;
  OverlapMemory kept;
  sort_outputs(outs, kept);
  const auto result = detach_overlapping_inputs(ins, outs, detached, {}, kept);
  ins = std::vector<Values>(result.begin(), result.end());
}

bool copied(const Tensor& now, const Tensor& before) {
  return now.data() != before.data();
}

bool overlap(const Tensor& a, const Tensor& b) {
  return a.bytes() > 0 && b.bytes() > 0 && a.as<char>() < b.as<char>() + b.bytes() &&
         b.as<char>() < a.as<char>() + a.bytes();
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

TEST_CASE("two outputs that overlap are refused, and both keys are named") {
  OverlapMemory kept;
  const auto refused = [&](const std::vector<Values>& outs) {
    return text_of(ErrorCode::invalid_argument, [&] { sort_outputs(outs, kept); });
  };
  CHECK(refused({{bytes(8, 16)}, {bytes(32, 40)}, {bytes(15, 24)}}) ==
        "pull of key 0: its output and that of key 'two' overlap in memory, so one result "
        "would be lost; give each output memory of its own");
  CHECK_THAT(refused({{bytes(32, 40)}, {bytes(8, 16)}, {bytes(0, 64)}}),
             Catch::Contains("pull of key 1: its output and that of key 'two'"));
  CHECK_THAT(refused({{bytes(0, 8)}, {bytes(8, 16), bytes(8, 16)}}),
             Catch::Contains("pull of key 1: two outputs of this key overlap"));
  sort_outputs({{bytes(8, 16)}, {bytes(0, 8), bytes(16, 24)}, {bytes(9, 9)}}, kept);
}

TEST_CASE("a key that stands twice in one call may give both results to one output") {
  const std::array<Key, 2> twice{7, 7};
  const std::vector<Values> outs{{bytes(8, 16)}, {bytes(8, 16)}};
  const std::vector<Values> shifted{{bytes(8, 16)}, {bytes(9, 17)}};
  OverlapMemory kept;
  tutti::sort_outputs({.method = Method::pull, .keys = twice, .outs = outs}, kept);
  CHECK_THROWS_AS(
      tutti::sort_outputs({.method = Method::pull, .keys = twice, .outs = shifted}, kept), Error);
}

TEST_CASE("weights that two keys share may be broadcast, under both") {
  const std::vector<Values> shared{{bytes(8, 16)}, {bytes(8, 16)}};
  const std::vector<Values> shifted{{bytes(8, 16)}, {bytes(9, 17)}};
  const std::span<const Key> two(keys.data(), 2);
  OverlapMemory kept;
  tutti::sort_outputs({.method = Method::broadcast, .keys = two, .outs = shared}, kept);
  CHECK_THROWS_AS(
      tutti::sort_outputs({.method = Method::broadcast, .keys = two, .outs = shifted}, kept),
      Error);
}

TEST_CASE(
    "inputs are copied and outputs refused in the cases that a comparison of all pairs finds") {
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
    if (overlap(outs[0][0], outs[1][0]) || overlap(outs[0][0], outs[2][0]) ||
        overlap(outs[1][0], outs[2][0])) {
      CHECK_THROWS_AS(detach_overlapping_inputs(ins, outs), Error);
      continue;
    }
    const std::vector<Values> before = ins;
    detach_overlapping_inputs(ins, outs);
    for (std::size_t key = 0; key < 3; ++key) {
      for (std::size_t i = 0; i < 2; ++i) {
        const Tensor& in = before[key][i];
        bool expected = false;
        for (std::size_t k = 0; k < 3; ++k) {
          const Tensor& out = outs[k][0];
          expected |= overlap(in, out) && !(k == key && in.data() == out.data());
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
    sort_outputs(lists, kept);
    CHECK(tutti::detach_overlapping_inputs(ins, lists, detached, {}, kept).data() == ins.data());
  }
  const std::vector<Values> shifted{{bytes(4, 12)}, {bytes(16, 20)}, {bytes(10, 16)}};
  const std::vector<Values> outs{{bytes(0, 8)}, {bytes(20, 24)}, {bytes(8, 16)}};
  sort_outputs(outs, kept);
  const auto result = tutti::detach_overlapping_inputs(shifted, outs, detached, {}, kept);
  CHECK(copied(result[0][0], shifted[0][0]));
  CHECK_FALSE(copied(result[1][0], shifted[1][0]));
  CHECK(copied(result[2][0], shifted[2][0]));
}
