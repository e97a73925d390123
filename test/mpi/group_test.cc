// Allreduces of GPUs between nodes that are made up, under mpirun, on the stand-ins: each node's
// ranks, with a GPU each, sum by launches of NCCL, and the nodes exchange the sums.
// GROUP_TEST_SEEDS makes it longer.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "../unit/collective/device_part.h"
#include "../unit/collective/grouping.h"
#include "collective/device_ends.h"
#include "member.h"
#include "mpi/library.h"

using namespace std::chrono_literals;
using namespace tutti;
using collective::Tuning;

namespace {

/// Placements, by rank the lowest rank on its node: pairs and single ranks; halves; the last node
/// with one rank more or less; the first node with two ranks, which needs a tree of its own over
/// nodes from five ranks on.
std::vector<std::vector<int>> placements(int ranks) {
  std::vector<int> pairs;
  std::vector<int> halves;
  std::vector<int> one_and_rest(static_cast<std::size_t>(ranks), 1);
  std::vector<int> two_and_ones;
  for (int rank = 0; rank < ranks; ++rank) {
    pairs.push_back(rank / 2 * 2);
    halves.push_back(rank < (ranks + 1) / 2 ? 0 : (ranks + 1) / 2);
    two_and_ones.push_back(rank == 1 ? 0 : rank);
  }
  one_and_rest.front() = 0;
  return {pairs, halves, one_and_rest, two_and_ones};
}

/// So small that a few thousand elements are many chunks.
Tuning small_tuning(std::mt19937_64& random) {
  Tuning tuning;
  tuning.device_slice_bytes = std::size_t{256} << random() % 8;
  tuning.device_slots = 2 + random() % 3;
  return tuning;
}

/// GROUP_TEST_BATCHES makes it shorter.
std::size_t batches() {
  const char* const given = std::getenv("GROUP_TEST_BATCHES");
  return given != nullptr ? static_cast<std::size_t>(std::atoi(given)) : 40;
}

unsigned seeds() {
  const char* const given = std::getenv("GROUP_TEST_SEEDS");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 3;
}

/// A rank with a GPU of its own. On a node with one rank there is no group.
struct Player {
  Player(const std::vector<int>& leader_of, unsigned seed, std::mt19937_64& random)
      : tuning(small_tuning(random)),
        member(leader_of, tuning),
        gpu(member.topology().local_index()),
        own(seed * 64 + static_cast<unsigned>(member.topology().rank)) {
    const topology::Topology& topology = member.topology();
    cuda::set_current(gpu);
    member.share_device_memory(tuning);
    const auto& layout = member.device_layout();
    const bool alone = topology.local_size() == 1;
    grouping.emplace(member.board(),
                     collective::DeviceGroup::Layout{topology.local_size(), topology.lanes(),
                                                     layout.slots, layout.slot_bytes},
                     alone ? ~std::uint64_t{0} : own() % 12);
    if (!alone) grouping->connect(gpu);
    member.open_own_staging(*grouping);
    member.driver().stumble(own);
  }

  /// Returns what failed.
  std::string play(const Scenario& scenario) {
    try {
      collective::DeviceEnds ends(gpu);
      const DevicePart part(scenario, member.topology().rank, gpu, ends, own);
      member.driver().run(part.batches());
      part.check();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  const Tuning tuning;
  Member member;
  const cuda::Gpu gpu;
  std::mt19937_64 own;
  std::optional<TestGrouping> grouping;
};

}  // namespace

TEST_CASE("GPUs of several nodes get the serial sum's bits, whatever else moves") {
  mpi::start({});
  const auto world = mpi::Communicator::world(60s);
  for (const std::vector<int>& leader_of : placements(world.size())) {
    for (unsigned seed = 1; seed <= seeds(); ++seed) {
      CAPTURE(leader_of, seed);
      std::mt19937_64 random(seed);
      Player player(leader_of, seed, random);
      const Scenario scenario(seed, world.size(),
                              {.batches = batches(),
                               .most_elements = 12'000,
                               .most_parts = 3,
                               .joins = true,
                               .in_arenas = 0,
                               .hidden = 1,
                               .most_inputs = 1,
                               .leader_of = leader_of});
      const std::string failure = player.play(scenario);
      for (const std::string& one : world.all_gather(failure, 60s, "the other ranks")) {
        INFO(one);
        CHECK(one.empty());
      }
      const bool alone = player.member.topology().local_size() == 1;
      CHECK((alone || player.grouping->disconnect() > 0));
      player.member.meet();
    }
  }
}
