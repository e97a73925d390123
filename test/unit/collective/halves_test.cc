#include "collective/halves.h"

#include <barrier>
#include <catch2/catch.hpp>
#include <map>
#include <stdexcept>
#include <vector>

#include "node.h"
#include "observe/timeline.h"

using namespace tutti;
using namespace tutti::collective;

namespace {

/// Chunks of 8 KiB.
Tuning halving() {
  Tuning tuning;
  tuning.half_bytes = 4096;
  tuning.halves_from = std::size_t{2} << 10;
  return tuning;
}

/// One tensor of floats. Their values depend on the rank and on `salt`.
struct Halved {
  Halved(int rank, std::uint32_t epoch, std::uint64_t number, std::size_t count, int salt = 0)
      : ins(count), outs(count), in(ins.data()), out(outs.data()), salt_(salt) {
    for (std::size_t i = 0; i < count; ++i) ins[i] = value(rank, i);
    batch.epoch = epoch;
    batch.number = number;
    batch.parts.push_back({{&in, 1}, {&out, 1}, count});
  }
  void check() const {
    for (std::size_t i = 0; i < outs.size(); ++i) {
      if (outs[i] != value(0, i) + value(1, i)) throw std::runtime_error("a wrong sum");
    }
  }
  float value(int rank, std::size_t i) const {
    return static_cast<float>((i + 1) % 1000) * static_cast<float>(rank + 1) +
           static_cast<float>(salt_);
  }

  std::vector<float> ins;
  std::vector<float> outs;
  const void* in;
  void* out;
  Batch batch;

 private:
  int salt_;
};

void await_gate(Rank& rank, const Batch& batch) {
  rank.driver.wait_for([&] { return rank.engine.poll_gate(batch.epoch, batch.number); });
}

void finish_next(Rank& rank) {
  rank.engine.start();
  rank.driver.wait_for([&] { return rank.engine.step() == Progress::done; });
}

/// Steps until this rank can go no further alone.
void step_alone(Rank& rank) {
  while (rank.engine.step() == Progress::moved) {
  }
}

constexpr std::size_t one_chunk = 1024;

}  // namespace

TEST_CASE("what lies in a slot for a gate that is withdrawn counts for no later batch") {
  Node node(2, halving());
  std::barrier all(2);
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    const Halved withdrawn(rank.index, 1, 0, one_chunk, 7);
    const Halved tiny(rank.index, 2, 0, 8);
    const Halved after(rank.index, 2, 1, one_chunk);
    if (rank.index == 1) {
      rank.engine.enter(withdrawn.batch);
      rank.engine.withdraw(1, 0);
    }
    rank.engine.enter(tiny.batch);
    await_gate(rank, tiny.batch);
    // The tiny batch is not done, so this one's half comes behind its gate.
    rank.engine.enter(after.batch);
    await_gate(rank, after.batch);
    finish_next(rank);
    if (rank.index == 0) {
      rank.engine.start();
      step_alone(rank);
    }
    all.arrive_and_wait();
    if (rank.index == 1) rank.engine.start();
    rank.driver.wait_for([&] { return rank.engine.step() == Progress::done; });
    tiny.check();
    after.check();
  }));
}

TEST_CASE("a rank that enters a gate ahead leaves its slot to the batch that moves") {
  Node node(2, halving());
  std::barrier all(2);
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    const Halved first(rank.index, 1, 0, one_chunk);
    const Halved second(rank.index, 1, 1, one_chunk, 5);
    rank.engine.enter(first.batch);
    await_gate(rank, first.batch);
    rank.engine.start();
    // Rank 1 has read nothing of rank 0's slot yet.
    if (rank.index == 0) {
      step_alone(rank);
      rank.engine.enter(second.batch);
    }
    all.arrive_and_wait();
    rank.driver.wait_for([&] { return rank.engine.step() == Progress::done; });
    if (rank.index == 1) rank.engine.enter(second.batch);
    await_gate(rank, second.batch);
    finish_next(rank);
    first.check();
    second.check();
  }));
}

TEST_CASE("a description names the rank whose half, or whose sum, is not there") {
  Node node(2, halving());
  std::barrier all(2);
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    const auto expect = [&](const std::string& part) {
      const std::string text = rank.engine.describe();
      if (text.find(part) == std::string::npos) throw std::runtime_error(text + " lacks " + part);
    };
    const Halved call(rank.index, 1, 0, 5 * one_chunk);
    rank.engine.enter(call.batch);
    await_gate(rank, call.batch);
    if (rank.index == 0) {
      rank.engine.start();
      step_alone(rank);
      expect(
          "batch 0 of epoch 1 moves: 3 chunks by halves, here done 0; chunk 0 not reduced by "
          "rank 1");
    }
    all.arrive_and_wait();
    if (rank.index == 1) {
      rank.engine.start();
      step_alone(rank);
      expect("here done 1; chunk 1 not copied in by rank 0");
    }
    all.arrive_and_wait();
    rank.driver.wait_for([&] { return rank.engine.step() == Progress::done; });
    call.check();
  }));
}

TEST_CASE("the timeline shows every stage of every chunk") {
  Node node(2, halving());
  std::vector<observe::Timeline> timelines;
  timelines.reserve(2);
  for (int rank = 0; rank < 2; ++rank) timelines.emplace_back(std::size_t{100});
  REQUIRE_NOTHROW(node.run([&](Rank& rank) {
    observe::Timeline& timeline = timelines[static_cast<std::size_t>(rank.index)];
    rank.engine.record_in(timeline);
    const Halved call(rank.index, 1, 0, 5 * one_chunk);
    rank.driver.run({&call.batch, 1});
    call.check();
  }));
  for (const observe::Timeline& timeline : timelines) {
    std::map<observe::Stage, int> begun;
    std::map<observe::Stage, int> ended;
    for (const observe::Timeline::Event& event : timeline.events()) {
      if (event.mark == observe::Timeline::Mark::begins) ++begun[event.stage];
      if (event.mark == observe::Timeline::Mark::ends) ++ended[event.stage];
    }
    using Stages = std::map<observe::Stage, int>;
    const Stages all{
        {observe::Stage::copy_in, 3}, {observe::Stage::sum, 3}, {observe::Stage::copy_out, 3}};
    CHECK(begun == all);
    CHECK(ended == all);
  }
}
