// The engine between nodes that are made up, under mpirun: random batches, the next one started
// while one is at its last chunks, against sums that are computed one element after the other.
// ENGINE_TEST_SEEDS makes it longer.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "../unit/collective/scenario.h"
#include "member.h"
#include "mpi/library.h"

using tutti::collective::Tuning;

namespace {

/// By rank the lowest rank on its node: pairs and single ones; the last node with one more or less;
/// the first with two, which of five and more ranks makes a tree over nodes of its own.
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
  tuning.small_bytes = std::size_t{64} << random() % 8;
  return tuning;
}

unsigned seeds() {
  const char* const given = std::getenv("ENGINE_TEST_SEEDS");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 4;
}

/// Everybody's failures, by rank: empty where there is none.
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
};

Played play(const std::vector<int>& leader_of, unsigned seed) {
  std::mt19937_64 random(seed);
  Member member(leader_of, small_tuning(random));
  const auto ranks = static_cast<int>(leader_of.size());
  const Scenario scenario(seed, ranks,
                          {.batches = 40,
                           .most_elements = 12'000,
                           .most_pieces = 3,
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
  member.meet();
  return played;
}

}  // namespace

TEST_CASE("batches that move at once between nodes each give the serial sum's bits") {
  tutti::mpi::start({});
  const auto world = tutti::mpi::Communicator::world(std::chrono::seconds(60));
  for (const std::vector<int>& leader_of : placements(world.size())) {
    std::size_t early = 0;
    for (unsigned seed = 1; seed <= seeds(); ++seed) {
      CAPTURE(leader_of, seed);
      const Played played = play(leader_of, seed);
      check_together(played.failure, world);
      early += played.started_early;
    }
    // Of 40 batches half are allreduces. Inside one node none overlaps another.
    const bool one_node = leader_of == std::vector<int>(leader_of.size(), 0);
    CHECK((one_node || early > seeds()));
  }
}
