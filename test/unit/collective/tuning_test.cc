#include "collective/tuning.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

using tutti::collective::Tuning;
using tutti::topology::Topology;

namespace {

constexpr std::size_t kibi = 1 << 10;
constexpr tutti::collective::Machine machine{std::size_t{32} << 20, 2};

Topology node_of(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {0, ranks, {all}};
}

std::size_t staging(const Tuning& tuning, int ranks) {
  const auto lanes = static_cast<std::size_t>(ranks);
  return lanes * lanes * tuning.slots * tuning.slice_bytes;
}

}  // namespace

TEST_CASE("slices of a node are so small that staging stays in the processors' own caches") {
  const std::size_t size = GENERATE(4 * kibi * kibi, 32 * kibi * kibi, 256 * kibi * kibi);
  for (int ranks = 1; ranks <= 32; ++ranks) {
    const Tuning tuning = Tuning::choose(node_of(ranks), 0, {size, 2});
    CHECK(tuning.cache_bytes == size);
    CAPTURE(ranks, tuning.slice_bytes, tuning.cache_bytes);
    CHECK(tuning.slice_bytes % 4096 == 0);
    CHECK(tuning.slice_bytes >= 32 * kibi);
    CHECK(tuning.slice_bytes <= 128 * kibi);
    const bool fits = staging(tuning, ranks) <= 2 * kibi * kibi;
    CHECK((fits || tuning.slice_bytes == 32 * kibi));
  }
}

TEST_CASE("slices of a node are as large as those caches allow") {
  CHECK(Tuning::choose(node_of(2), 0, machine).slice_bytes == 128 * kibi);
  CHECK(Tuning::choose(node_of(4), 0, machine).slice_bytes == 64 * kibi);
  CHECK(Tuning::choose(node_of(8), 0, machine).slice_bytes == 32 * kibi);
}

TEST_CASE("a slice size that the program sets is taken unchanged") {
  CHECK(Tuning::choose(node_of(8), 256 * kibi, machine).slice_bytes == 256 * kibi);
  CHECK(Tuning::choose(node_of(2), 64 * kibi, machine).slice_bytes == 64 * kibi);
}

TEST_CASE("ranks of one node sum small messages together when they share processors") {
  for (const int processors : {1, 2, 8, 64}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8, 9, 16, 64, 65, 200}) {
      CAPTURE(processors, ranks);
      const auto at_once = static_cast<std::size_t>(std::min(ranks, processors));
      const std::size_t share = 512 * kibi / at_once / 64 * 64;
      const Tuning tuning = Tuning::choose(node_of(ranks), 0, {machine.cache_bytes, processors});
      CHECK(tuning.sums_together == (ranks > processors));
      CHECK(tuning.layout(node_of(ranks)).small_results == tuning.sums_together);
      CHECK(tuning.eager_bytes == (at_once <= 4 ? 256 * kibi : share));
    }
  }
}

TEST_CASE("two ranks that are alone sum by halves, and sooner if they have a processor each") {
  for (const int processors : {1, 2, 8}) {
    for (const int ranks : {1, 2, 3, 8}) {
      CAPTURE(processors, ranks);
      const Tuning tuning = Tuning::choose(node_of(ranks), 0, {machine.cache_bytes, processors});
      const bool halves = ranks == 2;
      const std::size_t from = processors > 1 ? 8 * kibi : 256 * kibi + 1;
      CHECK(tuning.halves_from == (halves ? from : SIZE_MAX));
      CHECK((tuning.layout(node_of(ranks)).half_bytes >= 128 * kibi) == halves);
    }
  }
  const Topology apart{0, 2, {{0}, {1}}};
  CHECK(Tuning::choose(apart, 0, machine).halves_from == SIZE_MAX);
  CHECK(Tuning::choose(node_of(2), 4 * kibi, machine).half_bytes == 4 * kibi);
  CHECK(Tuning::choose(node_of(2), 512 * kibi, machine).half_bytes == 128 * kibi);
  CHECK(Tuning::choose(apart, 0, machine).layout(apart).half_bytes == 0);
}

TEST_CASE(
    "gates between three or four nodes carry less than a message holds, other gates a whole "
    "message") {
  for (int nodes = 2; nodes <= 9; ++nodes) {
    CAPTURE(nodes);
    Topology topology = node_of(nodes);
    topology.nodes.clear();
    topology.node_of.clear();
    topology.local_index_of.clear();
    for (int rank = 0; rank < nodes; ++rank) {
      topology.nodes.push_back({rank});
      topology.node_of.push_back(rank);
      topology.local_index_of.push_back(0);
    }
    const std::size_t most = Tuning::choose(topology, 0, machine).eager_bytes;
    if (nodes == 3 || nodes == 4) {
      CHECK(most == 40 * kibi);
    } else {
      CHECK(most <= 60 * kibi);
      CHECK(most > 59 * kibi);
    }
  }
}
