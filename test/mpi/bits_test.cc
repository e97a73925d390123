// Sums of floats have the same bits whatever the order of arrival and the store's settings; run
// under mpirun. Each rank prints hashes of its results, for comparison between layouts of ranks on
// hosts.
//
// STORE_TEST_SEED sets the values; of the combinations of settings one in STORE_TEST_EVERY is run,
// beginning with one that depends on the seed. STORE_TEST_RANKS, such as 1,3,4, are the ranks of
// the job that have the stores; else all have.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <sstream>

#include "float_values.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace float_values;

namespace {

/// Replay begins after two equal ones.
constexpr std::uint64_t rounds = 4;

/// The ranks that have the stores. Empty: all ranks of the job.
std::vector<int> ranks_asked_for() {
  const char* const given = std::getenv("STORE_TEST_RANKS");
  std::istringstream text(given != nullptr ? given : "");
  std::vector<int> ranks;
  for (std::string rank; std::getline(text, rank, ',');) ranks.push_back(std::stoi(rank));
  return ranks;
}

Options options_asked_for() {
  Options options = Options::from_env();
  options.ranks = ranks_asked_for();
  return options;
}

/// Whether this process has a part in the stores.
bool is_asked_for() {
  const std::vector<int> ranks = ranks_asked_for();
  const int mine = make_store()->rank();
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), mine) != ranks.end();
}

struct Variant {
  bool replay = false;
  std::size_t fusion_bytes = 0;
  std::size_t part_bytes = 0;
  std::size_t slice_bytes = 0;
  bool allocated = false;

  Options options() const {
    Options options = options_asked_for();
    options.replay = replay;
    options.fusion_bytes = fusion_bytes;
    options.part_bytes = part_bytes;
    options.slice_bytes = slice_bytes;
    return options;
  }
  std::string text() const {
    return fmt::format("replay {}, fusion {}, parts {}, slices {}, allocated {}", replay,
                       fusion_bytes, part_bytes, slice_bytes, allocated);
  }
};

/// Every combination.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const bool replay : {false, true}) {
    for (const std::size_t fusion : {0U, 4096U, 2U << 20U}) {
      for (const std::size_t part : {0U, 40'000U, 256U << 10U}) {
        for (const bool allocated : {false, true}) {
          // Slices of the store's choice, then of 4 KiB.
          const std::size_t slice = all.size() % 3 == 2 ? 4096 : 0;
          all.push_back({replay, fusion, part, slice, allocated});
        }
      }
    }
  }
  return all;
}

/// The tensors of all keys, in memory of the variant's kind.
class Tensors {
 public:
  Tensors(KVStore& store, bool allocated, std::uint64_t seed) {
    const std::vector<Item> all = items();
    memory_.resize(all.size());
    for (std::size_t key = 0; key < all.size(); ++key) {
      const Shape shape{static_cast<std::int64_t>(all[key].count)};
      inputs_.push_back(contribution(seed, store.rank(), key, all[key]));
      memory_[key].resize(all[key].bytes());
      tensors_.push_back(allocated ? store.allocate(shape, all[key].dtype)
                                   : Tensor(memory_[key].data(), shape, all[key].dtype));
    }
  }

  /// One round of all keys in place, in an order and at times of this rank's own.
  void reduce(KVStore& store, std::mt19937_64& own) {
    std::vector<std::size_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Pending> pendings;
    for (const std::size_t key : order) {
      std::memcpy(tensors_[key].data(), inputs_[key].data(), inputs_[key].size());
      pendings.push_back(store.pushpull(static_cast<int>(key), tensors_[key], tensors_[key]));
      if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 500));
    }
    for (const Pending& pending : pendings) pending.wait();
  }

  bool holds(std::size_t key, const Bytes& value) const {
    return std::memcmp(tensors_[key].data(), value.data(), value.size()) == 0;
  }

  std::vector<Bytes> results() const {
    std::vector<Bytes> copies;
    for (const Tensor& tensor : tensors_) {
      copies.emplace_back(tensor.as<std::byte>(), tensor.as<std::byte>() + tensor.bytes());
    }
    return copies;
  }

 private:
  std::vector<Bytes> inputs_;
  std::vector<Bytes> memory_;
  std::vector<Tensor> tensors_;
};

/// Bytes that left this host by any network device but the loopback.
std::uint64_t bytes_sent_by_host() {
  std::ifstream devices("/proc/net/dev");
  std::uint64_t sent = 0;
  for (std::string line; std::getline(devices, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find(" lo:") != std::string::npos) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::uint64_t number = 0;
    // The ninth number is the number of bytes sent.
    for (int i = 0; i < 9; ++i) numbers >> number;
    sent += number;
  }
  return sent;
}

struct Outcome {
  std::vector<Bytes> results;  ///< of the first round; the others must equal them
  std::uint64_t reduced = 0;
  std::uint64_t between_nodes = 0;
  std::uint64_t nodes = 0;
  std::uint64_t fewest_batches = UINT64_MAX;
  std::uint64_t most_batches = 0;
};

void run(const Variant& variant, std::uint64_t seed, std::mt19937_64& own, Outcome& outcome) {
  auto store = make_store(variant.options());
  Tensors tensors(*store, variant.allocated, seed);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    INFO(variant.text() << ", round " << round);
    tensors.reduce(*store, own);
    if (outcome.results.empty()) outcome.results = tensors.results();
    for (std::size_t key = 0; key < outcome.results.size(); ++key) {
      INFO("key " << key);
      CHECK(tensors.holds(key, outcome.results[key]));
    }
  }
  store->barrier();
  const Counters counters = store->counters();
  outcome.reduced += counters.bytes_reduced;
  outcome.between_nodes += counters.bytes_between_nodes;
  outcome.nodes = counters.nodes;
  outcome.fewest_batches = std::min(outcome.fewest_batches, counters.batches);
  outcome.most_batches = std::max(outcome.most_batches, counters.batches);
  // Each tensor is in one batch, unless it is cut.
  if (variant.fusion_bytes == 0) CHECK(counters.batches >= counters.tensors_reduced);
  if (variant.fusion_bytes == 0 && variant.part_bytes == 0) {
    CHECK(counters.batches == counters.tensors_reduced);
  }
  if (variant.part_bytes == 40'000) {
    // Each round, of the tensors of 60,001 and 300,007 floats alone.
    CHECK(counters.batches >= rounds * (6 + 30));
  }
}

void tell(const Outcome& outcome, std::uint64_t seed, std::uint64_t sent_before) {
  auto store = make_store(options_asked_for());
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  store->barrier();
  const std::uint64_t sent = bytes_sent_by_host() - sent_before;
  const std::string tree = expected_hash(seed, store->num_workers(),
                                         [](std::size_t n) { return std::bit_floor(n - 1); });
  const std::string other_tree =
      expected_hash(seed, store->num_workers(), [](std::size_t) { return 1; });
  fmt::print(
      "bits {{\"rank\": {}, \"host\": \"{}\", \"nodes\": {}, \"reduced\": {}, "
      "\"between_nodes\": {}, \"sent_by_host\": {}, \"wide\": \"{}\", \"narrow\": \"{}\", "
      "\"tree\": \"{}\", \"other_tree\": \"{}\"}}\n",
      store->rank(), host.data(), outcome.nodes, outcome.reduced, outcome.between_nodes, sent,
      hash(outcome.results, true), hash(outcome.results, false), tree, other_tree);
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("sums have the same bits in any order of arrival, batches, parts, slices and memory") {
  const std::uint64_t seed = agreed_seed();
  if (!is_asked_for()) return;
  const std::uint64_t sent_before = bytes_sent_by_host();
  std::mt19937_64 own(std::random_device{}());
  Outcome outcome;
  const char* const given = std::getenv("STORE_TEST_EVERY");
  const std::uint64_t every = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::vector<Variant> all = variants();
  for (std::size_t i = seed % every; i < all.size(); i += every) run(all[i], seed, own, outcome);
  // Some were fused, some cut.
  CHECK(outcome.fewest_batches < outcome.most_batches / 2);
  tell(outcome, seed, sent_before);
}
