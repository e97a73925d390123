// Sums the same values whatever the order, the settings and the placement, and prints a hash of the
// results' bits; test_bits.py compares. Run under mpirun with the seed of the order of submission.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "tutti/tutti.h"

namespace {

using namespace tutti;

constexpr std::size_t sizes[] = {1, 7, 1000, 4099, 70'001, 300'007, 1'500'001};
constexpr int keys_of_a_size = 2;
constexpr int rounds = 3;

/// Magnitudes far apart, so that another order of additions gives other bits.
void fill(std::span<float> values, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (float& value : values) {
    const auto bits = random();
    const float fraction = static_cast<float>(bits >> 40) / static_cast<float>(1 << 24) - 0.5F;
    value = std::ldexp(fraction, static_cast<int>(bits % 24));
  }
}

std::uint64_t hash(std::uint64_t before, std::span<const float> values) {
  constexpr std::uint64_t prime = 0x100000001B3;
  for (const float value : values) {
    before = (before ^ std::bit_cast<std::uint32_t>(value)) * prime;
  }
  return before;
}

struct Value {
  std::vector<float> own;
  Tensor tensor;
  std::span<float> span() const { return {tensor.as<float>(), tensor.shape().count()}; }
};

/// Every second in node-shared memory.
std::vector<Value> make_values(KVStore& store) {
  std::vector<Value> values;
  for (const std::size_t size : sizes) {
    const Shape shape{static_cast<std::int64_t>(size)};
    for (int i = 0; i < keys_of_a_size; ++i) {
      Value& value = values.emplace_back();
      if (i == 0) {
        value.tensor = store.allocate(shape, DType::f32);
      } else {
        value.own.resize(size);
        value.tensor = Tensor(value.own.data(), shape, DType::f32);
      }
    }
  }
  return values;
}

void reduce_all(KVStore& store, const std::vector<Value>& values, std::mt19937_64& random) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Pending> pending;
  for (const std::size_t key : order) {
    const Tensor& tensor = values[key].tensor;
    pending.push_back(store.pushpull(static_cast<int>(key), tensor, tensor,
                                     {.priority = static_cast<int>(random() % 5)}));
  }
  for (const Pending& each : pending) each.wait();
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t order_seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const auto store = KVStore::create("dist_sync_mpi");
  const auto rank = static_cast<std::uint64_t>(store->rank());
  // Without a seed every rank keeps the same order, which replay repeats.
  std::mt19937_64 random(order_seed * 1000 + (order_seed == 0 ? 0 : rank));
  const std::vector<Value> values = make_values(*store);
  std::uint64_t result = 0xCBF29CE484222325;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::size_t key = 0; key < values.size(); ++key) {
      fill(values[key].span(), (round * values.size() + key) * 64 + rank);
    }
    if (order_seed == 0) random.seed(0);
    reduce_all(*store, values, random);
    for (const Value& value : values) result = hash(result, value.span());
  }
  const Counters counters = store->counters();
  std::printf("rank %d: bits %016llx on %zu nodes, %llu bytes between them, %llu batches\n",
              store->rank(), static_cast<unsigned long long>(result), counters.nodes,
              static_cast<unsigned long long>(counters.bytes_between_nodes),
              static_cast<unsigned long long>(counters.batches));
}
