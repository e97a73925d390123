// f32 sums at the sizes around which the store takes another way, under settings that move these
// sizes, have the bits of one binary tree; so have the two halves of pushpull, and with a wire
// format the bits of that tree with nodes' sums in 16 bits. Run under mpirun with any number of
// ranks that are placed host by host. STORE_TEST_SEED repeats a run's choices.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>

#include "../unit/reduce/reference.h"
#include "float_values.h"
#include "shm/shared_cache.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using float_values::Bytes;
using float_values::Item;

namespace {

/// Replay begins after two equal ones.
constexpr int rounds = 4;
constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

struct Variant {
  const char* wire;
  bool replay;
  bool reproducible;
  std::optional<std::size_t> fusion_bytes;
  std::optional<std::size_t> part_bytes;
  std::size_t slice_bytes;

  Options options() const {
    Options options = Options::from_env();
    options.replay = replay;
    options.reproducible = reproducible;
    options.fusion_bytes = fusion_bytes;
    options.part_bytes = part_bytes;
    options.slice_bytes = slice_bytes;
    return options;
  }
  std::string text() const {
    return fmt::format("wire {}, replay {}, reproducible {}, fusion {}, parts {}, slices {}", wire,
                       replay, reproducible, fusion_bytes ? std::to_string(*fusion_bytes) : "own",
                       part_bytes ? std::to_string(*part_bytes) : "own", slice_bytes);
  }
};

constexpr std::optional<std::size_t> own_choice;
constexpr Variant variants[] = {
    {"none", true, true, own_choice, own_choice, 0},
    {"none", true, false, 0, own_choice, 0},
    {"none", false, true, 64 * MiB, 0, 0},
    {"none", true, true, own_choice, 60 * KiB, 4 * KiB},
    {"fp16", true, true, own_choice, own_choice, 0},
    {"fp16", false, false, 0, 60 * KiB, 4 * KiB},
    {"bf16", true, true, 64 * MiB, 0, 0},
    {"bf16", true, false, own_choice, 100'000, 8 * KiB},
};

/// Ranks [begin, end) of each node.
using Nodes = std::vector<std::pair<int, int>>;

Nodes nodes_of(KVStore& store) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  auto host = static_cast<std::int64_t>(std::hash<std::string>{}(name.data()));
  std::vector<std::int64_t> hosts(static_cast<std::size_t>(store.num_workers()));
  const Tensor all(hosts.data(), {store.num_workers()}, DType::i64);
  store.allgather("hosts", Tensor(&host, {1}, DType::i64), all).wait();
  Nodes nodes;
  for (int rank = 0; rank < store.num_workers(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank == 0 || hosts[at] != hosts[at - 1]) nodes.emplace_back(rank, rank);
    ++nodes.back().second;
  }
  CHECK(nodes.size() == store.counters().nodes);
  return nodes;
}

std::size_t left_of(std::size_t n) {
  return std::bit_floor(n - 1);
}

/// Whether each of the nodes is a branch of the tree over ranks [begin, end).
bool are_branches(const Nodes& nodes, int begin, int end) {
  const auto inside = std::count_if(nodes.begin(), nodes.end(), [&](const auto& node) {
    return node.first >= begin && node.second <= end;
  });
  if (inside == 0) return false;
  if (inside == 1) return std::count(nodes.begin(), nodes.end(), std::pair(begin, end)) == 1;
  const int middle = begin + static_cast<int>(left_of(static_cast<std::size_t>(end - begin)));
  return are_branches(nodes, begin, middle) && are_branches(nodes, middle, end);
}

Bytes sum_of(const std::vector<Bytes>& values, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return values[begin];
  const std::size_t middle = begin + left_of(end - begin);
  Bytes sum = sum_of(values, begin, middle);
  float_values::add_to<float>(sum, sum_of(values, middle, end));
  return sum;
}

/// The floats that 16 bits hold.
void round(const reference::Half& half, Bytes& floats) {
  for (std::size_t at = 0; at < floats.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, floats.data() + at, sizeof value);
    value = static_cast<float>(half.value(half.nearest(static_cast<double>(value))));
    std::memcpy(floats.data() + at, &value, sizeof value);
  }
}

/// The right result of a pushpull of a key. Values that do not leave their node are not rounded.
Bytes right_sum(std::uint64_t seed, const Nodes& nodes, const std::string& wire, std::size_t key,
                std::size_t count) {
  const Item item{DType::f32, count};
  const int ranks = nodes.back().second;
  const bool narrow = wire != "none" && nodes.size() > 1;
  const reference::Half half = wire == "fp16" ? reference::f16 : reference::bf16;
  if (!narrow && are_branches(nodes, 0, ranks)) {
    return float_values::tree_sum(seed, key, item, 0, ranks, left_of);
  }
  std::vector<Bytes> sums;
  for (const auto& [begin, end] : nodes) {
    sums.push_back(float_values::tree_sum(seed, key, item, begin, end, left_of));
    if (narrow) round(half, sums.back());
  }
  Bytes sum = sum_of(sums, 0, sums.size());
  if (narrow) round(half, sum);
  return sum;
}

/// Elements: for each size at which something changes, one that is close to it or exactly it.
std::vector<std::size_t> random_counts(const Variant& variant, const Nodes& nodes,
                                       std::mt19937_64& shared) {
  std::size_t most_local = 0;
  for (const auto& [begin, end] : nodes) {
    most_local = std::max(most_local, static_cast<std::size_t>(end - begin));
  }
  const auto ranks = static_cast<std::size_t>(nodes.back().second);
  // The largest sizes that lie in one cache line, are sent to every node whole, travel with a gate
  // (of eight nodes, of fewer, on one node), and are one message.
  std::vector<std::size_t> sizes{64, 8 * KiB, 15 * KiB, 60 * KiB, 256 * KiB};
  // The sizes of a slice, a chunk and a part. If no size between nodes is given, those of a part
  // and a fused batch.
  const std::size_t slice = variant.slice_bytes != 0 ? variant.slice_bytes : 128 * KiB;
  sizes.insert(sizes.end(), {slice, slice * most_local, slice * ranks});
  const bool defaults = variant.slice_bytes == 0 && variant.wire == std::string("none");
  sizes.push_back(variant.part_bytes.value_or(0) != 0 ? *variant.part_bytes : 512 * KiB);
  if (defaults) {
    sizes.insert(sizes.end(), {MiB, 4 * MiB});
    // Outputs that are written around the caches; not all of a server's larger one.
    sizes.push_back(std::min(shm::shared_cache_bytes() / most_local / 2, 16 * MiB));
  }
  std::vector<std::size_t> counts;
  counts.reserve(sizes.size());
  for (const std::size_t size : sizes) counts.push_back(size / sizeof(float) - 2 + shared() % 5);
  return counts;
}

/// A key's tensors on this rank: private, in place, or in place in the store's memory, as it likes.
class Trial {
 public:
  Trial(KVStore& store, std::size_t key, std::size_t count, Bytes in, std::mt19937_64& own)
      : store_(store), key_(key), in_(std::move(in)), kind_(own() % 3) {
    const auto tensor = [&] {
      const Shape shape{static_cast<std::int64_t>(count)};
      if (kind_ == 2) return store.allocate(shape, DType::f32);
      return Tensor(std::shared_ptr<void>(new float[count], std::default_delete<float[]>()), shape,
                    DType::f32);
    };
    const Shard own_part = shard(count, store.rank(), store.num_workers());
    for (Way* const way : {&whole_, &halves_}) {
      way->in = tensor();
      way->out = kind_ == 0 ? tensor() : way->in;
    }
    part_ = Tensor(halves_.out.as<float>() + own_part.begin,
                   {static_cast<std::int64_t>(own_part.count())}, DType::f32);
  }

  /// Results of before are gone.
  void fill() {
    for (const Way* const way : {&whole_, &halves_}) {
      std::memset(way->out.data(), 0xff, way->out.bytes());
      std::memcpy(way->in.data(), in_.data(), in_.size());
    }
  }
  Pending whole() { return store_.pushpull(name("whole"), whole_.in, whole_.out); }
  Pending first() { return store_.reduce_scatter(name("first"), halves_.in, part_); }
  Pending second() { return store_.allgather(name("second"), part_, halves_.out); }
  bool whole_is(const Bytes& right) const { return same(whole_.out, right); }
  bool halves_are(const Bytes& right) const { return same(halves_.out, right); }

 private:
  struct Way {
    Tensor in, out;
  };
  Key name(const char* what) const { return fmt::format("{} {}", what, key_); }
  static bool same(const Tensor& tensor, const Bytes& right) {
    return std::memcmp(tensor.data(), right.data(), right.size()) == 0;
  }

  KVStore& store_;
  const std::size_t key_;
  const Bytes in_;
  const std::uint64_t kind_;
  Way whole_, halves_;
  Tensor part_;
};

/// All keys, in an order of this rank's own.
void exchange(std::vector<Trial>& trials, std::mt19937_64& own) {
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), own);
  std::vector<Pending> pendings;
  for (Trial& trial : trials) trial.fill();
  for (const std::size_t key : order) {
    pendings.push_back(trials[key].first());
    pendings.push_back(trials[key].whole());
  }
  for (const Pending& pending : pendings) pending.wait();
  pendings.clear();
  for (const std::size_t key : order) pendings.push_back(trials[key].second());
  for (const Pending& pending : pendings) pending.wait();
}

void try_out(const Variant& variant, std::uint64_t seed, std::mt19937_64& shared) {
  auto store = make_store(variant.options());
  store->set_gradient_compression(variant.wire);
  const Nodes nodes = nodes_of(*store);
  const std::vector<std::size_t> counts = random_counts(variant, nodes, shared);
  std::mt19937_64 own(std::random_device{}());
  std::vector<Trial> trials;
  std::vector<Bytes> right;
  for (std::size_t key = 0; key < counts.size(); ++key) {
    trials.emplace_back(
        *store, key, counts[key],
        float_values::contribution(seed, store->rank(), key, {DType::f32, counts[key]}), own);
    right.push_back(right_sum(seed, nodes, variant.wire, key, counts[key]));
  }
  for (int round = 0; round < rounds; ++round) {
    exchange(trials, own);
    for (std::size_t key = 0; key < counts.size(); ++key) {
      INFO(variant.text() << ", round " << round << ", " << counts[key] << " elements");
      CHECK(trials[key].whole_is(right[key]));
      CHECK(trials[key].halves_are(right[key]));
    }
  }
}

}  // namespace

TEST_CASE("around every threshold, under every setting, sums have the bits of one tree") {
  const std::uint64_t seed = agreed_seed();
  std::mt19937_64 shared(seed);
  for (const Variant& variant : variants) try_out(variant, seed, shared);
}
