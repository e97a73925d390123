// Allreduces of a node's GPUs by launches of NCCL, on the stand-ins: ranks are threads, each with a
// device of its own.
#include "collective/group_allreduce.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <vector>

#include "base/mapping.h"
#include "collective/device_ends.h"
#include "device_part.h"
#include "grouping.h"
#include "node.h"
#include "unit/cuda/machine.h"

using namespace std::chrono_literals;
using namespace tutti;
using namespace tutti::collective;

namespace {

/// Small chunks, so that slots are used again and again.
Tuning small_tuning(std::mt19937_64& random) {
  Tuning tuning;
  tuning.device_slice_bytes = std::size_t{64} << random() % 7;
  tuning.device_slots = 1 + random() % 4;
  return tuning;
}

/// The ranks of a node share this for their groups. Each rank has its own from some batch on.
class Groups {
 public:
  Groups(int ranks, const Tuning& tuning, std::mt19937_64& random) {
    const std::vector<int> leader_of(static_cast<std::size_t>(ranks), 0);
    const auto layout = tuning.device_layout(topology::make_topology(0, leader_of));
    const std::size_t bytes = shm::GroupBoard::bytes(ranks, layout.slots);
    file_ = base::create_memory_file("board", bytes);
    memory_ = base::Mapping(file_, bytes);
    for (int rank = 0; rank < ranks; ++rank) {
      groupings_.emplace_back(shm::GroupBoard(memory_.span(), ranks, rank, layout.slots),
                              DeviceGroup::Layout{ranks, ranks, layout.slots, layout.slot_bytes},
                              random() % 12);
    }
  }

  TestGrouping& of(int rank) { return groupings_[static_cast<std::size_t>(rank)]; }
  std::vector<Grouping*> all() {
    std::vector<Grouping*> pointers;
    for (TestGrouping& grouping : groupings_) pointers.push_back(&grouping);
    return pointers;
  }

 private:
  base::Fd file_;
  base::Mapping memory_;
  std::deque<TestGrouping> groupings_;
};

void sum_on_gpus(unsigned seed) {
  const int ranks = 2 + static_cast<int>(seed % 4);
  CAPTURE(seed, ranks);
  const standin::Playing machine("devices=8 h2d_delay=3e-5 d2h_delay=2e-5");
  std::mt19937_64 random(seed);
  const Tuning tuning = small_tuning(random);
  Groups groups(ranks, tuning, random);
  Node node(ranks, tuning, groups.all());
  const Scenario scenario(seed, ranks,
                          {.batches = 40,
                           .most_elements = 3000,
                           .most_parts = 4,
                           .joins = true,
                           .in_arenas = 0,
                           .hidden = 1,
                           .most_inputs = 1});
  std::atomic<std::size_t> launched{0};
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    const cuda::Gpu gpu(rank.index);
    cuda::set_current(gpu);
    DeviceEnds ends(gpu);
    groups.of(rank.index).connect(gpu);
    const DevicePart part(scenario, rank.index, gpu, ends, rank.random);
    rank.driver.stumble(rank.random);
    rank.driver.run(part.batches());
    part.check();
    launched += groups.of(rank.index).disconnect();
  }));
  CHECK(launched > 0);
}

}  // namespace

TEST_CASE("tensors on the GPUs of a node get the canonical tree's bits, whatever else moves") {
  sum_on_gpus(GENERATE(range(300U, 304U)));
}

TEST_CASE("the same with many more batches", "[slow]") {
  sum_on_gpus(GENERATE(range(304U, 324U)));
}
