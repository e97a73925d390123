#include "coordinator/cycles.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

using namespace tutti::coordinator;

namespace {

/// Steps of a program that has the same tensors in every step, each of this many parts.
class Steps {
 public:
  Steps(CycleFinder& cycles, KeyId tensors, std::size_t parts)
      : cycles_(cycles), tensors_(tensors), parts_(parts) {}

  void step() {
    for (KeyId id = 0; id < tensors_; ++id) {
      for (std::size_t part = 1; part <= parts_; ++part) {
        const RecordedBatch batch{.batch = {.parts = {{.id = id, .begin = part - 1, .count = 1}}}};
        const bool last = part == parts_;
        cycles_.add(batch, last ? std::vector<KeyId>{id} : std::vector<KeyId>{}, last);
      }
    }
  }
  /// Looks like a coordinator, whenever a step is over.
  std::size_t until_found(std::size_t at_most) {
    for (std::size_t steps = 1; steps <= at_most; ++steps) {
      step();
      if (const auto cycle = cycles_.find()) {
        CHECK(cycle->uses == tensors_);
        CHECK(cycle->batches.size() == tensors_ * parts_);
        return steps;
      }
    }
    FAIL("no cycle in " << at_most << " steps");
    return 0;
  }

 private:
  CycleFinder& cycles_;
  const KeyId tensors_;
  const std::size_t parts_;
};

}  // namespace

TEST_CASE("each short replay makes the next one harder to earn, but none impossible") {
  struct Size {
    KeyId tensors;
    std::size_t parts;
  };
  for (const Size size : {Size{1, 1}, Size{160, 1}, Size{5000, 1}, Size{1, 400}, Size{3, 5000}}) {
    INFO(size.tensors << " tensors of " << size.parts << " parts");
    CycleFinder cycles;
    Steps steps(cycles, size.tensors, size.parts);
    const std::size_t most = CycleFinder::most_parts / (size.tensors * size.parts);
    std::size_t before = 0;
    for (int replay = 0; replay < 20; ++replay) {
      const std::size_t now = steps.until_found(most);
      CHECK(now >= before);
      if (replay == 0) CHECK(now == 2);
      before = now;
      cycles.note_replay_ended(size.tensors, 0);
      cycles.restart(0);
    }
    CHECK(before >= most / 2);
    cycles.note_replay_ended(size.tensors, CycleFinder::most_parts);
    CHECK(steps.until_found(most) == 2);
    cycles.restart(0);
  }
}

TEST_CASE("the longest cycle there may be is found, whatever came before") {
  for (const KeyId before : {0U, 1U, 1000U, 30'000U, 60'000U}) {
    CycleFinder cycles;
    Steps(cycles, before, 1).step();
    CHECK(Steps(cycles, CycleFinder::longest_cycle, 1).until_found(4) >= 2);
  }
}

TEST_CASE("a longer cycle is not found, because the plan is not remembered for long enough") {
  CycleFinder cycles;
  Steps steps(cycles, CycleFinder::most_parts / 2 + 1, 1);
  for (int i = 0; i < 4; ++i) {
    steps.step();
    CHECK_FALSE(cycles.find());
  }
}

namespace {

RecordedBatch part(KeyId id, std::int32_t priority, std::size_t waiting, std::uint64_t begin = 0) {
  return {.batch = {.parts = {{.id = id, .begin = begin, .count = 1}}},
          .priority = priority,
          .waiting = waiting};
}

/// The ids of its batches, after an arrangement for a replay from there.
std::vector<KeyId> arranged(std::vector<RecordedBatch> batches, std::size_t from = 0) {
  Cycle cycle{.first = 0, .batches = std::move(batches), .uses = 0};
  cycle.bring_forward(from);
  std::vector<KeyId> ids;
  for (const RecordedBatch& recorded : cycle.batches)
    ids.push_back(recorded.batch.parts.front().id);
  return ids;
}

}  // namespace

TEST_CASE("in a cycle an urgent batch passes less urgent ones that nobody had begun to move") {
  CHECK(arranged({part(0, 1, 0), part(1, 1, 1), part(2, 1, 2), part(3, 5, 2)}) ==
        std::vector<KeyId>{0, 3, 1, 2});
  // An equal and a more urgent one hold it up, and so does one that a rank had entered.
  CHECK(arranged({part(0, 1, 0), part(1, 9, 0), part(2, 1, 0), part(3, 5, 3)}) ==
        std::vector<KeyId>{0, 1, 3, 2});
  CHECK(arranged({part(0, 1, 0), part(1, 5, 0), part(2, 1, 0), part(3, 5, 3)}) ==
        std::vector<KeyId>{0, 1, 3, 2});
  CHECK(arranged({part(0, 1, 0), part(1, 1, 0), part(2, 5, 0)}) == std::vector<KeyId>{0, 1, 2});
  // One passes what another has passed before, but nothing that came before that.
  CHECK(arranged({part(0, 1, 0), part(1, 1, 0), part(2, 3, 1), part(3, 5, 2)}) ==
        std::vector<KeyId>{0, 3, 2, 1});
}

TEST_CASE("a tensor's parts and uses keep their order in a cycle") {
  CHECK(arranged({part(0, 1, 0), part(7, 5, 1, 0), part(7, 5, 2, 1), part(7, 5, 3, 2)}) ==
        std::vector<KeyId>{7, 7, 7, 0});
  CHECK(arranged({part(0, 1, 0), part(0, 5, 1)}) == std::vector<KeyId>{0, 0});
}

TEST_CASE("nothing passes the batch at which a replay begins") {
  CHECK(arranged({part(0, 1, 0), part(1, 1, 0), part(2, 5, 2), part(3, 1, 0), part(4, 5, 4)}, 2) ==
        std::vector<KeyId>{0, 1, 2, 4, 3});
  CHECK(arranged({part(0, 1, 0), part(1, 5, 1), part(2, 1, 0)}, 2) == std::vector<KeyId>{1, 0, 2});
}
