#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <thread>

#include "node.h"

using namespace tutti::collective;

namespace {

/// A batch of one tensor of `count` floats, in place, in memory of its own.
struct Call {
  Call(int rank, std::uint32_t epoch, std::uint64_t number, std::size_t count)
      : values(count, static_cast<float>(rank + 1)), in(values.data()), out(values.data()) {
    batch.epoch = epoch;
    batch.number = number;
    batch.parts.push_back({{&in, 1}, {&out, 1}, count});
  }
  void check(int ranks) const {
    const int sum = ranks * (ranks + 1) / 2;
    for (const float value : values) {
      if (value != static_cast<float>(sum)) {
        throw std::runtime_error("a wrong sum");
      }
    }
  }

  std::vector<float> values;
  const void* in;
  void* out;
  Batch batch;
};

void finish(Rank& rank) {
  rank.engine.start();
  rank.driver.wait_for([&] { return rank.engine.step() == Progress::done; });
}

/// Steps until this rank can go no further alone.
Progress step_on(Rank& rank) {
  Progress progress = rank.engine.step();
  while (progress == Progress::moved) progress = rank.engine.step();
  return progress;
}

/// Both ways: 8 floats are small, 100,000 are not.
std::size_t any_count() {
  return GENERATE(8U, 100'000U);
}

}  // namespace

TEST_CASE("a gate stays open until the last rank arrives, and then closes everywhere") {
  const int ranks = GENERATE(2, 3, 5);
  const std::size_t count = any_count();
  Node node(ranks, {});
  std::barrier all(ranks);
  node.run([&](Rank& rank) {
    const Call call(rank.index, 1, 0, count);
    const bool last = rank.index == ranks - 1;
    if (!last) rank.engine.enter(call.batch);
    all.arrive_and_wait();
    if (!last && rank.engine.poll_gate(1, 0)) throw std::runtime_error("closed too early");
    all.arrive_and_wait();
    if (last) rank.engine.enter(call.batch);
    rank.driver.wait_for([&] { return rank.engine.poll_gate(1, 0); });
    finish(rank);
    call.check(ranks);
  });
}

TEST_CASE("no output is written before the gate closes") {
  const std::size_t count = any_count();
  Node node(3, {});
  std::barrier all(3);
  node.run([&](Rank& rank) {
    const Call call(rank.index, 1, 0, count);
    if (rank.index != 0) rank.engine.enter(call.batch);
    all.arrive_and_wait();
    for (const float value : call.values) {
      if (value != static_cast<float>(rank.index + 1)) throw std::runtime_error("written");
    }
    all.arrive_and_wait();
    if (rank.index == 0) rank.engine.enter(call.batch);
    rank.driver.wait_for([&] { return rank.engine.poll_gate(1, 0); });
    finish(rank);
    call.check(3);
  });
}

TEST_CASE("a gate that will not close is withdrawn, and its batch moves in the next epoch") {
  const int ranks = GENERATE(2, 3, 8);
  const std::size_t count = any_count();
  Node node(ranks, {});
  std::barrier all(ranks);
  node.run([&](Rank& rank) {
    const Call first(rank.index, 1, 0, count);
    const Call second(rank.index, 1, 1, count);
    const Call again(rank.index, 2, 0, count);
    rank.driver.run({&first.batch, 1});
    if (rank.index != 0) rank.engine.enter(second.batch);
    all.arrive_and_wait();
    if (rank.index != 0) {
      if (rank.engine.poll_gate(1, 1)) throw std::runtime_error("closed without rank 0");
      rank.engine.withdraw(1, 1);
    }
    rank.driver.run({&again.batch, 1});
    first.check(ranks);
    again.check(ranks);
  });
}

TEST_CASE("a gate is closed by a later batch of its own epoch, not by one of a later epoch") {
  Node node(2, {});
  std::barrier all(2);
  node.run([&](Rank& rank) {
    const Call first(rank.index, 1, 0, 8);
    const Call second(rank.index, 1, 1, 8);
    const Call other(rank.index, 2, 1, 8);
    const Call stale(rank.index, 1, 1, 8);
    rank.engine.enter(first.batch);
    all.arrive_and_wait();
    if (rank.index == 0) {
      rank.engine.poll_gate(1, 0);
      finish(rank);
      rank.engine.enter(second.batch);  // stands at batch 1 while rank 1 looks at gate 0
      all.arrive_and_wait();
      all.arrive_and_wait();
      rank.engine.withdraw(1, 1);
      rank.engine.enter(other.batch);
      all.arrive_and_wait();
      rank.driver.wait_for([&] { return rank.engine.poll_gate(2, 1); });
      finish(rank);
      other.check(2);
    } else {
      all.arrive_and_wait();
      if (!rank.engine.poll_gate(1, 0)) throw std::runtime_error("a rank ahead keeps a gate open");
      finish(rank);
      all.arrive_and_wait();
      rank.engine.enter(stale.batch);
      all.arrive_and_wait();
      if (rank.engine.poll_gate(1, 1)) throw std::runtime_error("another epoch closed a gate");
      rank.engine.withdraw(1, 1);
      rank.engine.enter(other.batch);
      rank.driver.wait_for([&] { return rank.engine.poll_gate(2, 1); });
      finish(rank);
      other.check(2);
    }
    first.check(2);
  });
}

TEST_CASE("a rank need not see the closing of a gate that the coordinator closes") {
  const int ranks = GENERATE(2, 5);
  const std::size_t count = any_count();
  Node node(ranks, {});
  std::atomic<int> entered = 0;
  node.run([&](Rank& rank) {
    const Call call(rank.index, 1, 0, count);
    rank.engine.enter(call.batch);
    // Relaxed: this says that all have entered, and makes nothing else visible.
    entered.fetch_add(1, std::memory_order_relaxed);
    while (entered.load(std::memory_order_relaxed) < ranks) std::this_thread::yield();
    finish(rank);
    call.check(ranks);
  });
}

TEST_CASE("a description names the ranks that have not arrived, and those that hold up the data") {
  Node node(3, {});
  std::barrier all(3);
  node.run([&](Rank& rank) {
    const auto expect = [&](const std::string& part) {
      const std::string text = rank.engine.describe();
      if (text.find(part) == std::string::npos) throw std::runtime_error(text + " lacks " + part);
    };
    const Call call(rank.index, 7, 4, 100'000);
    expect("no gate is open");
    if (rank.index == 1) rank.engine.enter(call.batch);
    all.arrive_and_wait();
    if (rank.index == 1) expect("gate of batch 4 of epoch 7: not arrived on this node: rank 0, 2");
    all.arrive_and_wait();
    if (rank.index != 1) rank.engine.enter(call.batch);
    rank.driver.wait_for([&] { return rank.engine.poll_gate(7, 4); });
    all.arrive_and_wait();
    if (rank.index == 1) {
      rank.engine.start();
      step_on(rank);
      expect("batch 4 of epoch 7 moves");
      expect("chunk 0 not copied in by rank 0, 2");
    }
    all.arrive_and_wait();
    if (rank.index != 1) rank.engine.start();
    rank.driver.wait_for([&] { return rank.engine.step() == Progress::done; });
    call.check(3);
  });
}

TEST_CASE("a description names the ranks that have not summed the data in staging memory") {
  Node node(2, {});
  std::barrier all(2);
  std::string said;
  node.run([&](Rank& rank) {
    const Call call(rank.index, 1, 0, 1'000'000);
    rank.engine.enter(call.batch);
    rank.driver.wait_for([&] { return rank.engine.poll_gate(1, 0); });
    for (const int turn : {1, 0}) {
      if (rank.index == turn) {
        rank.engine.start();
        step_on(rank);
      }
      all.arrive_and_wait();
    }
    if (rank.index == 0) said = rank.engine.describe();
    all.arrive_and_wait();
    rank.driver.wait_for([&] { return step_on(rank) == Progress::done; });
    call.check(2);
  });
  CHECK_THAT(said, Catch::Contains("staging for chunk 2 still in use by rank 1"));
}
