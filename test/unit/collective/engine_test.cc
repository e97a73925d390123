#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "node.h"
#include "scenario.h"

using tutti::collective::Tuning;

namespace {

/// So small that a few thousand elements are many chunks.
Tuning small_tuning(std::mt19937_64& random) {
  Tuning tuning;
  tuning.slice_bytes = std::size_t{64} << random() % 7;
  tuning.eager_bytes = std::array{0U, 4096U, 65'536U}[random() % 3];
  tuning.slots = 1 + random() % 4;
  tuning.device_slice_bytes = std::size_t{64} << random() % 7;
  tuning.device_slots = 1 + random() % 4;
  tuning.sums_together = random() % 2 == 0;
  tuning.half_bytes = std::array{64U, 512U, 4096U, 131'072U}[random() % 4];
  tuning.halves_from = std::array{std::size_t{1}, std::size_t{2048}, SIZE_MAX}[random() % 3];
  // Both ways of staging are tested, with any caches of this machine.
  tuning.staging.least_bytes = std::array{1U, 256U, 32'768U}[random() % 3];
  tuning.staging.between_trials = 1 + random() % 8;
  return tuning;
}

void delay(std::mt19937_64& random) {
  if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

/// Moves a scenario's batches, a few at a time, with random delays between them.
void play(Node& node, const Scenario& scenario) {
  node.run([&](Rank& rank) {
    const Part part(scenario, rank.index, rank.arena);
    std::span<const tutti::collective::Batch> left(part.batches());
    while (!left.empty()) {
      const std::size_t some = std::min<std::size_t>(left.size(), 1 + rank.random() % 10);
      delay(rank.random);
      rank.driver.run(left.first(some));
      left = left.subspan(some);
    }
    part.check();
  });
}

void play_at_random(unsigned seed) {
  std::mt19937_64 random(seed);
  const int ranks = 1 + static_cast<int>(seed % 8);
  CAPTURE(seed, ranks);
  Node node(ranks, small_tuning(random));
  REQUIRE_NOTHROW(
      play(node, Scenario(seed, ranks,
                          {.batches = 60, .most_elements = 3000, .most_parts = 4, .joins = true})));
}

void play_behind_ends(unsigned seed) {
  std::mt19937_64 random(seed);
  const int ranks = 1 + static_cast<int>(seed % 8);
  CAPTURE(seed, ranks);
  Node node(ranks, small_tuning(random));
  const Scenario scenario(seed, ranks,
                          {.batches = 60,
                           .most_elements = 3000,
                           .most_parts = 4,
                           .joins = true,
                           .hidden = seed % 2 == 0 ? 1 : 0.6});
  std::atomic<std::size_t> waits{0};
  std::atomic<std::size_t> early{0};
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    FakeEnds ends(rank.random());
    const Part part(scenario, rank.index, rank.arena, &ends);
    rank.driver.run(part.batches());
    part.check();
    waits += ends.waits();
    early += rank.driver.started_early();
  }));
  CHECK(waits > 0);
  CHECK(early > 0);
}

}  // namespace

TEST_CASE("every rank gets the canonical tree's bits, whatever the batch, the way and the timing") {
  play_at_random(GENERATE(range(1U, 17U)));
}

TEST_CASE("every rank gets them in many more batches", "[slow]") {
  play_at_random(GENERATE(range(17U, 41U)));
}

TEST_CASE("two ranks that sum a half each get the canonical tree's bits, whatever comes between") {
  const auto seed = GENERATE(range(300U, 330U));
  std::mt19937_64 random(seed);
  Tuning tuning = small_tuning(random);
  tuning.halves_from = 1 + random() % 600;
  CAPTURE(seed, tuning.half_bytes);
  Node node(2, tuning);
  REQUIRE_NOTHROW(play(node, Scenario(seed, 2,
                                      {.batches = 80,
                                       .most_elements = 3000,
                                       .most_parts = seed % 2 == 0 ? 3U : 40U,
                                       .joins = true})));
}

TEST_CASE("tensors in arenas move without staging, in place or not, fused or not") {
  const auto seed = GENERATE(range(100U, 109U));
  std::mt19937_64 random(seed);
  const int ranks = 1 + static_cast<int>(seed % 8);
  CAPTURE(seed, ranks);
  Node node(ranks, small_tuning(random));
  REQUIRE_NOTHROW(play(
      node, Scenario(seed, ranks,
                     {.batches = 30, .most_elements = 2000, .most_parts = 80, .in_arenas = 1.0})));
}

TEST_CASE("tensors behind ends whose copies take their time get the same bits, beside others") {
  play_behind_ends(GENERATE(range(200U, 208U)));
}

TEST_CASE("tensors behind such ends get them in many more batches", "[slow]") {
  play_behind_ends(GENERATE(range(208U, 224U)));
}

TEST_CASE("thousands of small batches follow one another") {
  const int ranks = GENERATE(2, 3, 8);
  CAPTURE(ranks);
  Node node(ranks, {});
  REQUIRE_NOTHROW(play(node, Scenario(7, ranks,
                                      {.batches = 1500,
                                       .most_elements = 40,
                                       .most_parts = 2,
                                       .joins = true,
                                       .in_arenas = 0.1})));
}

TEST_CASE("a batch in its default sizes spans many chunks") {
  const int ranks = GENERATE(1, 2, 3, 7);
  CAPTURE(ranks);
  Node node(ranks, {});
  REQUIRE_NOTHROW(play(
      node, Scenario(11, ranks,
                     {.batches = 6, .most_elements = 700'000, .most_parts = 2, .in_arenas = 0.5})));
}
