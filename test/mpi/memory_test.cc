// Compares the memory that a store holds with the formula, and tests that it does not grow.
#include <malloc.h>

#include <fstream>
#include <thread>

#include "store_fixture.h"
#include "tutti/info.h"

using namespace store_test;
using tutti::DType;
using tutti::Key;
using tutti::Options;
using tutti::Tensor;
using tutti::Values;

namespace {

constexpr std::uint64_t bytes_a_key = 1472;

/// The bytes of this process in memory, including shared memory that it has touched.
std::uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t pages = 0;
  file >> all >> pages;
  return pages * 4096;
}

std::uint64_t formula(const tutti::KVStore& store, const Options& options) {
  const auto nodes = static_cast<int>(store.counters().nodes);
  return tutti::most_buffer_bytes(options, store.num_workers() / nodes, nodes);
}

/// Whether the store holds the memory of the formula. Between nodes, and if each rank has a
/// processor, it may hold less.
bool holds_most(const tutti::KVStore& store) {
  const auto ranks = static_cast<std::size_t>(store.num_workers());
  return store.counters().nodes == 1 && (ranks == 1 || ranks > std::thread::hardware_concurrency());
}

}  // namespace

TEST_CASE("a fresh store holds what the formula says, or less, whatever the slices") {
  for (const std::size_t slice : {std::size_t{0}, std::size_t{4096}, std::size_t{1} << 20}) {
    Options options = Options::from_env();
    options.slice_bytes = slice;
    const auto store = make_store(options);
    const tutti::Counters counters = store->counters();
    if (holds_most(*store)) CHECK(counters.buffer_bytes == formula(*store, options));
    CHECK(counters.buffer_bytes <= formula(*store, options));
    CHECK(counters.allocated_bytes == 0);
  }
}

TEST_CASE("200 steps of varying sizes make neither the buffers nor the process grow") {
  constexpr std::uint64_t may_grow = std::uint64_t{4} << 20;
  constexpr std::size_t keys = 40;
  constexpr std::size_t keys_of_classes = 1 + 3 + 7 + 15 + 31 + keys;
  constexpr std::size_t largest = std::size_t{1} << 20;
  const Options options = Options::from_env();
  const auto store = make_store(options);
  std::vector<float> memory(largest, 1);
  std::mt19937 random(11);
  const auto step = [&](std::size_t most) {
    std::vector<Key> names;
    std::vector<Values> tensors;
    std::size_t used = 0;
    for (std::size_t key = 0; key < keys && used < largest; ++key) {
      const std::size_t count = std::min(1 + random() % most, largest - used);
      names.emplace_back(static_cast<std::int64_t>(key));
      tensors.emplace_back(
          Tensor(memory.data() + used, {static_cast<std::int64_t>(count)}, DType::f32));
      used += count;
    }
    store->pushpull(names, tensors, tensors).wait();
    memory.assign(memory.size(), 1);
  };
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) step(i % 4 == 0 ? largest : std::size_t{1} << (i % 20));
  };
  // Every key's and every length's first use costs memory of its own.
  steps(100);
  const std::uint64_t buffers = store->counters().buffer_bytes;
  const std::uint64_t before = resident();
  steps(200);
  const tutti::Counters counters = store->counters();
  if (counters.nodes == 1) CHECK(counters.buffer_bytes == buffers);
  if (holds_most(*store)) CHECK(buffers > formula(*store, options));
  CHECK(counters.buffer_bytes <= formula(*store, options) + keys_of_classes * bytes_a_key);
  const std::uint64_t after = resident();
  CHECK(after < before + may_grow);
}

TEST_CASE("a key takes the memory that its contract says") {
  constexpr std::size_t keys_a_step = 1000;
  constexpr std::size_t steps = 100;
  // If MALLOC_PERTURB_ fills memory, memory that is reserved and not used counts, too.
  mallopt(M_PERTURB, 0);
  const auto store = make_store();
  float value = 1;
  const std::vector<Values> tensors(keys_a_step, Values(Tensor(&value, {}, DType::f32)));
  std::size_t named = 0;
  const auto step = [&] {
    std::vector<Key> names;
    while (names.size() < keys_a_step) {
      const std::string number = std::to_string(named++);
      names.emplace_back(std::string(20 - number.size(), 'k') + number);
    }
    store->broadcast(names, tensors, 0).wait();
  };
  step();
  const std::uint64_t before = resident();
  for (std::size_t i = 0; i < steps; ++i) step();
  const double kib = static_cast<double>(resident() - before) / 1024 / (keys_a_step * steps);
  const double said = store->rank() == 0 ? 1.5 : 0.8;
  CHECK(kib <= 1.15 * said);
  CHECK(kib >= 0.85 * said);
}

TEST_CASE("a closed store gives the memory of its keys back") {
  constexpr std::size_t keys_a_step = 1000;
  constexpr std::size_t steps = 100;
  std::vector<float> values(keys_a_step, 1);
  std::vector<Values> tensors;
  tensors.reserve(keys_a_step);
  for (float& value : values) tensors.emplace_back(Tensor(&value, {}, DType::f32));
  const auto run = [&](std::size_t count) {
    const auto store = make_store();
    std::size_t named = 0;
    for (std::size_t step = 0; step < count; ++step) {
      std::vector<Key> names;
      while (names.size() < keys_a_step) names.emplace_back("key " + std::to_string(named++));
      store->pushpull(names, tensors, tensors).wait();
    }
    const std::uint64_t used = resident();
    store->close();
    return std::pair(used, resident());
  };
  // The first store's threads and messages take memory that later ones use again.
  const std::uint64_t before = run(1).second;
  const auto [used, closed] = run(steps);
  const auto mib = [](std::uint64_t bytes) { return bytes >> 20; };
  INFO(mib(before) << " MiB before, " << mib(used) << " used, " << mib(closed) << " closed");
  CHECK(used > before + (std::uint64_t{40} << 20));
  CHECK(closed < before + (used - before) / 8);
}

TEST_CASE("allocated tensors are counted while they live, and the most of them for ever") {
  const auto store = make_store();
  const std::uint64_t page = 4096;
  Tensor kept = store->allocate({1}, DType::u8);
  {
    const Tensor large = store->allocate({5000}, DType::f32);
    CHECK(store->counters().allocated_bytes == 6 * page);
  }
  CHECK(store->counters().allocated_bytes == page);
  kept = {};
  const tutti::Counters counters = store->counters();
  CHECK(counters.allocated_bytes == 0);
  CHECK(counters.allocated_peak_bytes == 6 * page);
  store->barrier();
}
