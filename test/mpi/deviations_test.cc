// Steps that repeat, which the store replays, and at random ones something else: one rank or all
// of them leave the order, the list or the shapes of before. Run under mpirun with any number of
// ranks. STORE_TEST_SEED repeats a run's choices, STORE_TEST_STORES makes it longer.
#include <algorithm>
#include <numeric>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;

namespace {

constexpr int steps = 60;
constexpr int steady = 10;  ///< first steps, in which nothing changes

enum class What : std::uint8_t {
  nothing,
  order,      ///< another order
  straggler,  ///< the last tensor is submitted when the others are done
  pause,      ///< somewhat later than the others
  fewer,      ///< without one of the tensors, everybody
  more,       ///< with a new one, everybody
  shape,      ///< one has another shape, everybody
  broadcast,  ///< one in between, everybody
  barrier,    ///< everybody
  join,       ///< a rank has no data in this step
};
constexpr int whats = 10;

/// What ranks agree on for a step.
struct Step {
  What what = What::nothing;
  int who = 0;  ///< the rank that deviates where one does, as often all do
  bool everybody = false;
  std::size_t key = 0;  ///< the tensor that it is about

  bool deviates(int rank) const { return everybody || rank == who; }
};

Step random_step(std::mt19937_64& shared, int number, int ranks, std::size_t keys) {
  Step step;
  const std::uint64_t choice = shared() % 50;
  if (number >= steady && choice < whats) step.what = static_cast<What>(choice);
  step.who = static_cast<int>(shared() % static_cast<std::uint64_t>(ranks));
  step.everybody = shared() % 2 == 0;
  step.key = shared() % keys;
  return step;
}

/// A rank's tensors, and its way through the steps.
class Walker {
 public:
  Walker(KVStore& store, std::vector<std::size_t> counts, std::uint64_t seed)
      : store_(store), counts_(std::move(counts)), own_(seed), one_call_(own_() % 2 == 0) {}

  void take(const Step& step, int number) {
    const int rank = store_.rank();
    const bool deviates = step.deviates(rank);
    if (step.what == What::join && rank == step.who) {
      store_.join();
      return;
    }
    if (step.what == What::pause && deviates) {
      std::this_thread::sleep_for(std::chrono::microseconds(own_() % 3000));
    }
    prepare(step, number);
    if (step.what == What::order && deviates) std::shuffle(keys_.begin(), keys_.end(), own_);
    if (step.what == What::straggler && deviates) {
      const std::size_t last = keys_.back();
      keys_.pop_back();
      submit_and_wait(step);
      keys_ = {last};
    }
    submit_and_wait(step);
    if (step.what == What::barrier) store_.barrier();
    check(step, number);
    if (step.what == What::join) store_.join();
  }

 private:
  void prepare(const Step& step, int number) {
    keys_.resize(counts_.size() + (step.what == What::more ? 1 : 0));
    std::iota(keys_.begin(), keys_.end(), std::size_t{0});
    values_.resize(keys_.size());
    for (const std::size_t key : keys_) {
      const bool known = key < counts_.size();
      const bool other = known && step.what == What::shape && key == step.key;
      values_[key].resize(known ? counts_[key] + (other ? 3 : 0) : 17);
      for (std::size_t i = 0; i < values_[key].size(); ++i) {
        values_[key][i] = value_of(store_.rank(), key, number, i);
      }
    }
    if (step.what == What::fewer)
      keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(step.key));
  }

  Tensor tensor(std::size_t key) {
    return {values_[key].data(), {static_cast<std::int64_t>(values_[key].size())}, DType::f32};
  }
  /// Names that are new in each step where a tensor is.
  Key name(std::size_t key) const {
    return key < counts_.size() ? std::to_string(key) : "more " + std::to_string(news_);
  }

  void submit_and_wait(const Step& step) {
    std::vector<Pending> pendings;
    std::vector<Key> names;
    std::vector<Values> lists;
    for (const std::size_t key : keys_) {
      names.push_back(name(key));
      lists.emplace_back(tensor(key));
      if (!one_call_) pendings.push_back(store_.pushpull(names.back(), tensor(key), tensor(key)));
    }
    if (one_call_) pendings.push_back(store_.pushpull(names, lists, lists));
    if (step.what == What::broadcast) broadcast(step.who);
    for (const Pending& pending : pendings) pending.wait();
  }

  void broadcast(int root) {
    float value = store_.rank() == root ? 7.0F : 0.0F;
    store_.broadcast("weight", Tensor(&value, {}, DType::f32), root).wait();
    CHECK(value == 7.0F);
  }

  void check(const Step& step, int number) {
    news_ += step.what == What::more ? 1 : 0;
    std::size_t wrong = 0;
    for (std::size_t key = 0; key < values_.size(); ++key) {
      const bool left_out = step.what == What::fewer && key == step.key;
      for (std::size_t i = 0; i < values_[key].size() && !left_out; ++i) {
        float right = expected_sum(store_.num_workers(), key, number, i);
        if (step.what == What::join) right -= value_of(step.who, key, number, i);
        wrong += values_[key][i] == right ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }

  KVStore& store_;
  const std::vector<std::size_t> counts_;
  std::mt19937_64 own_;
  const bool one_call_;
  std::vector<std::size_t> keys_;
  std::vector<std::vector<float>> values_;
  int news_ = 0;
};

std::vector<std::size_t> random_counts(std::mt19937_64& shared) {
  std::vector<std::size_t> counts(2 + shared() % 7);
  for (std::size_t& count : counts) count = shared() % 8 == 0 ? 50'000 : shared() % 500;
  return counts;
}

Options random_options(std::mt19937_64& shared) {
  Options options = Options::from_env();
  options.replay = true;
  options.part_bytes = shared() % 2 == 0 ? 0 : 10'000;
  return options;
}

}  // namespace

TEST_CASE("steps that are replayed may be left at any of them, and the sums stay right") {
  try_stores(4, random_options, [](KVStore& store, std::mt19937_64& shared, std::mt19937_64& own) {
    const std::vector<std::size_t> counts = random_counts(shared);
    Walker walker(store, counts, own());
    int silent = 0;
    for (int number = 0; number < steps; ++number) {
      const Step step = random_step(shared, number, store.num_workers(), counts.size());
      INFO("step " << number << ", deviation " << static_cast<int>(step.what) << " of "
                   << (step.everybody ? "all ranks" : "rank ") << step.who);
      const std::uint64_t messages = store.counters().control_messages;
      walker.take(step, number);
      silent += store.counters().control_messages == messages ? 1 : 0;
    }
    // It was replay that was left.
    CHECK(silent > 0);
  });
}
