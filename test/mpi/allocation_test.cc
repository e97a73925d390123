// Tests how much the store takes from the heap while the same calls are made again and again.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "allocation_count.h"
#include "store_fixture.h"

using namespace store_test;
using tutti::DType;
using tutti::Key;
using tutti::Pending;
using tutti::Tensor;
using tutti::Values;

namespace {

constexpr int steps = 1000;
constexpr int warmup = 100;

/// Tensors of a key each, input and output apart, in no order of addresses.
struct Step {
  Step(std::size_t tensors, std::size_t elements, bool long_names)
      : memory(2 * tensors * elements, 1), spare(long_names ? Key("spare") : Key(-1)) {
    for (std::size_t i = 0; i < tensors; ++i) {
      const std::string name = fmt::format("stage3_unit{}_conv2_weight", i);
      keys.push_back(long_names ? Key(name) : Key(static_cast<std::int64_t>(i)));
      ins.emplace_back(at(i * 7 % tensors, elements));
      outs.emplace_back(at(tensors + i * 11 % tensors, elements));
    }
  }
  Tensor at(std::size_t i, std::size_t elements) {
    return {memory.data() + i * elements, {static_cast<std::int64_t>(elements)}, DType::f32};
  }

  std::vector<float> memory;
  Key spare;  ///< of the same kind as the keys
  std::vector<Key> keys;
  std::vector<Values> ins;
  std::vector<Values> outs;
};

struct Stretch {
  std::uint64_t allocations = 0;
  std::uint64_t messages = 0;
};

/// `count` calls of `step`, after others in which every memory finds its size.
/// ALLOCATION_TEST_TRACE=1 shows where each allocation comes from.
template <typename Call>
Stretch measure(tutti::KVStore& store, const Call& step, int count) {
  for (int i = 0; i < warmup; ++i) step();
  std::optional<allocation_count::Trace> trace;
  if (std::getenv("ALLOCATION_TEST_TRACE") != nullptr) trace.emplace();
  const std::uint64_t messages = store.counters().control_messages;
  const std::uint64_t before = allocation_count::total();
  for (int i = 0; i < count; ++i) step();
  const Stretch stretch{allocation_count::total() - before,
                        store.counters().control_messages - messages};
  trace.reset();
  // A rank that is ahead sends messages about what comes next. It is one step ahead at the most.
  for (int i = 0; i < 3; ++i) step();
  return stretch;
}

/// The memory that the ranks take from the heap over `count` replayed steps. The measurement is
/// repeated if a rank of a busy machine asked the coordinator in between, or if some memory still
/// found its size, which depends on which ranks meet. The memory that a step takes each time
/// remains in the result.
template <typename Call>
std::int64_t allocations(tutti::KVStore& store, const Key& key, const Call& step,
                         int count = steps) {
  constexpr int attempts = 10;
  std::array<std::int64_t, 2> sums{};
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const Stretch stretch = measure(store, step, count);
    sums = {static_cast<std::int64_t>(stretch.messages),
            static_cast<std::int64_t>(stretch.allocations)};
    const Tensor tensor(sums.data(), {2}, DType::i64);
    store.pushpull(key, tensor, tensor).wait();
    if (sums[0] == 0 && sums[1] == 0) break;
  }
  CHECK(sums[0] == 0);
  return sums[1];
}

}  // namespace

TEST_CASE("a list of 160 tensors takes nothing from the heap") {
  const auto store = make_store();
  for (const bool long_names : {false, true}) {
    const auto each_kind = long_names ? make_store() : nullptr;
    tutti::KVStore& own = each_kind ? *each_kind : *store;
    Step step(160, 25, long_names);
    CHECK(allocations(own, step.spare,
                      [&] { own.pushpull(step.keys, step.ins, step.outs).wait(); }) == 0);
  }
}

TEST_CASE("tensors of several sizes, reduced in place, take nothing from the heap") {
  const auto store = make_store();
  Step step(40, 3000, true);
  CHECK(allocations(*store, step.spare,
                    [&] { store->pushpull(step.keys, step.ins, step.ins).wait(); }) == 0);
}

TEST_CASE("single small tensors, several in flight, take nothing from the heap") {
  const auto store = make_store();
  Step step(12, 1, true);
  std::vector<Pending> pending(step.keys.size());
  CHECK(allocations(*store, step.spare, [&] {
          for (std::size_t i = 0; i < step.keys.size(); ++i) {
            pending[i] = store->pushpull(step.keys[i], step.ins[i], step.outs[i]);
          }
          for (const Pending& each : pending) each.wait();
        }) == 0);
}

TEST_CASE("a large tensor, which travels in parts, takes nothing from the heap") {
  const auto store = make_store();
  Step step(1, std::size_t{4} << 20, false);
  CHECK(allocations(
            *store, step.spare,
            [&] { store->pushpull(step.keys[0], step.ins[0], step.outs[0]).wait(); },
            steps / 10) == 0);
}

TEST_CASE("a broadcast takes nothing from the heap") {
  const auto store = make_store();
  Step step(20, 25, false);
  CHECK(allocations(*store, step.spare,
                    [&] { store->broadcast(step.keys, step.outs, 0).wait(); }) == 0);
}

TEST_CASE("both halves, with the shards in place, take nothing from the heap") {
  const auto store = make_store();
  const auto halves_allocate = [&](std::size_t tensors, std::size_t elements, int count) {
    Step step(tensors, elements, true);
    const tutti::Shard own = tutti::shard(elements, store->rank(), store->num_workers());
    std::vector<Values> shards;
    for (const Values& in : step.ins) {
      const auto length = static_cast<std::int64_t>(own.count());
      shards.emplace_back(Tensor(in[0].as<float>() + own.begin, {length}, DType::f32));
    }
    const auto reduce_scatter = [&] { store->reduce_scatter(step.keys, step.ins, shards).wait(); };
    const auto allgather = [&] { store->allgather(step.keys, shards, step.ins).wait(); };
    return std::max(allocations(*store, step.spare, reduce_scatter, count),
                    allocations(*store, step.spare, allgather, count));
  };
  CHECK(halves_allocate(10, 25, steps) == 0);
  CHECK(halves_allocate(1, std::size_t{4} << 20, steps / 10) == 0);
}
