// The engine between nodes that are made up, under mpirun: random batches, the next one started
// while one is at its last chunks, against sums that are computed one element after the other.
// ENGINE_TEST_SEEDS makes it longer.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "../unit/collective/scenario.h"
#include "member.h"
#include "mpi/library.h"

using tutti::CollectiveKind;
using tutti::collective::Batch;
using tutti::collective::Rows;
using tutti::collective::Tuning;

namespace {

/// Placements, by rank the lowest rank on its node: pairs and single ranks; the last node with one
/// rank more or less; the first node with two ranks, which needs a tree of its own over nodes from
/// five ranks on.
std::vector<std::vector<int>> placements(int ranks) {
  std::vector<int> alone;
  std::vector<int> pairs;
  std::vector<int> one_and_rest(static_cast<std::size_t>(ranks), 1);
  for (int rank = 0; rank < ranks; ++rank) {
    alone.push_back(rank);
    pairs.push_back(rank / 2 * 2);
  }
  one_and_rest.front() = 0;
  std::vector<int> two_and_ones = alone;
  two_and_ones[1] = 0;
  return {alone, pairs, one_and_rest, two_and_ones};
}

/// So small that a few thousand elements are many chunks, some of which go to everyone whole, and
/// that gates of up to 8 nodes carry only some batches.
Tuning small_tuning(std::mt19937_64& random) {
  Tuning tuning;
  tuning.slice_bytes = std::size_t{256} << random() % 8;
  tuning.slots = 2 + random() % 3;
  tuning.eager_bytes = std::size_t{64} << random() % 8;
  return tuning;
}

unsigned seeds() {
  const char* const given = std::getenv("ENGINE_TEST_SEEDS");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 4;
}

/// Checks the failures of all ranks, by rank. A rank without a failure has an empty text.
void check_together(const std::string& failure, const tutti::mpi::Communicator& world) {
  const auto failures = world.all_gather(failure, std::chrono::seconds(60), "the other ranks");
  for (const std::string& one : failures) {
    INFO(one);
    CHECK(one.empty());
  }
}

struct Played {
  std::string failure;
  std::size_t started_early = 0;
  std::size_t behind_small = 0;
};

Played play(const std::vector<int>& leader_of, unsigned seed) {
  std::mt19937_64 random(seed);
  Member member(leader_of, small_tuning(random));
  const auto ranks = static_cast<int>(leader_of.size());
  const Scenario scenario(seed, ranks,
                          {.batches = 40,
                           .most_elements = 12'000,
                           .most_parts = 3,
                           .joins = true,
                           .in_arenas = 0.4,
                           .leader_of = leader_of});
  std::mt19937_64 own(seed * 64 + static_cast<unsigned>(member.topology().rank));
  member.driver().stumble(own);
  const Part part(scenario, member.topology().rank, member.arena());
  Played played;
  try {
    member.driver().run(part.batches());
    part.check();
  } catch (const std::exception& error) {
    played.failure = error.what();
  }
  played.started_early = member.driver().started_early();
  played.behind_small = member.driver().started_behind_small();
  member.meet();
  return played;
}

/// The average of `count` times 40000 on every rank. 16 bits do not hold the sum of two of these.
std::string average_large(Member& member, CollectiveKind kind, std::size_t count, bool in_arena,
                          std::uint64_t number) {
  constexpr std::uint16_t large = 0x78E2;  // 40000 in f16
  const tutti::topology::Topology& topology = member.topology();
  std::vector<std::uint16_t> own(count, large);
  const auto shared = member.arena().allocate(count * sizeof(large));
  auto* const data = in_arena ? static_cast<std::uint16_t*>(shared.get()) : own.data();
  std::fill_n(data, count, large);
  const void* const in = data;
  void* const out = data;
  Batch batch;
  batch.epoch = 1;
  batch.number = number;
  batch.kind = kind;
  batch.dtype = tutti::DType::f16;
  batch.op = tutti::ReduceOp::average;
  batch.divisor = topology.size;
  batch.parts.push_back({{&in, 1}, {&out, 1}, count});
  if (batch.is_sharded()) batch.rows = Rows::of_part(count, topology.size, 0, count);
  member.driver().run({&batch, 1});
  const auto right = [](std::uint16_t is) { return std::abs(is - large) <= 2; };
  if (std::all_of(data, data + count, right)) return "";
  return fmt::format("{} of {} elements{}: 40000 becomes {:#x}",
                     batch.is_sharded() ? "half" : "whole", count, in_arena ? " in arenas" : "",
                     *std::find_if_not(data, data + count, right));
}

}  // namespace

TEST_CASE("an average that 16 bits hold comes out though they do not hold a node's sum") {
  tutti::mpi::start({});
  const auto world = tutti::mpi::Communicator::world(std::chrono::seconds(60));
  for (const std::vector<int>& leader_of : placements(world.size())) {
    CAPTURE(leader_of);
    Member member(leader_of, Tuning());
    std::string failure;
    std::uint64_t number = 0;
    for (const CollectiveKind kind : {CollectiveKind::allreduce, CollectiveKind::reduce_scatter}) {
      for (const std::size_t count : {1U, 5'000U, 500'000U}) {
        for (const bool in_arena : {false, true}) {
          failure += average_large(member, kind, count, in_arena, number++);
        }
      }
    }
    member.meet();
    check_together(failure, world);
  }
}

TEST_CASE("batches that move at once between nodes each give the serial sum's bits") {
  tutti::mpi::start({});
  const auto world = tutti::mpi::Communicator::world(std::chrono::seconds(60));
  for (const std::vector<int>& leader_of : placements(world.size())) {
    std::size_t early = 0;
    std::size_t behind_small = 0;
    for (unsigned seed = 1; seed <= seeds(); ++seed) {
      CAPTURE(leader_of, seed);
      const Played played = play(leader_of, seed);
      check_together(played.failure, world);
      early += played.started_early;
      behind_small += played.behind_small;
    }
    // Half of the 40 batches are allreduces. Inside one node no batch overlaps another.
    const bool one_node = leader_of == std::vector<int>(leader_of.size(), 0);
    CHECK((one_node || early > seeds()));
    CHECK((one_node ? behind_small == 0 : behind_small > 0));
  }
}
