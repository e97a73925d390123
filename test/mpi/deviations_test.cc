// Steps that repeat, which the store replays, and at random ones something else: one rank or all
// of them leave the order, the list or the shapes of before. Run under mpirun with any number of
// ranks. STORE_TEST_SEED repeats a run's choices, STORE_TEST_STORES makes it longer.
#include <algorithm>
#include <cmath>
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
  join,       ///< a rank has no data in this step, nor in some that follow
};
constexpr int whats = 10;

/// The facts on which the ranks agree for one step.
struct Step {
  What what = What::nothing;
  int who = 0;  ///< the rank that deviates where one does, as often all do
  bool everybody = false;
  std::size_t key = 0;   ///< the tensor that it is about
  int joined_steps = 1;  ///< how long the rank has no data

  bool deviates(int rank) const { return everybody || rank == who; }
  bool same_order() const { return what != What::order && what != What::straggler; }
};

Step random_step(std::mt19937_64& shared, int number, int ranks, std::size_t keys) {
  Step step;
  step.joined_steps = 1 + static_cast<int>(shared() % 4);
  const std::uint64_t choice = shared() % 50;
  if (number >= steady && choice < whats) step.what = static_cast<What>(choice);
  step.who = static_cast<int>(shared() % static_cast<std::uint64_t>(ranks));
  step.everybody = shared() % 2 == 0;
  step.key = shared() % keys;
  return step;
}

/// The facts on which the ranks agree for all steps.
struct Work {
  std::vector<std::size_t> counts;
  ReduceOp op = ReduceOp::sum;
  bool one_by_one = false;  ///< each tensor waits for the one before, where the order is the same
};

/// A rank's tensors, and its way through the steps.
class Walker {
 public:
  Walker(KVStore& store, const Work& work, std::uint64_t seed)
      : store_(store), work_(work), own_(seed), one_call_(own_() % 2 == 0) {}

  void take(const Step& step, int number) {
    const int rank = store_.rank();
    const bool deviates = step.deviates(rank);
    if (step.what == What::join) return join(step, number);
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
  }

 private:
  void join(const Step& step, int number) {
    for (int i = 0; i < step.joined_steps && store_.rank() != step.who; ++i) {
      prepare(step, number + i);
      submit_and_wait(step);
      check(step, number + i);
    }
    store_.join();
  }

  void prepare(const Step& step, int number) {
    keys_.resize(work_.counts.size() + (step.what == What::more ? 1 : 0));
    std::iota(keys_.begin(), keys_.end(), std::size_t{0});
    values_.resize(keys_.size());
    for (const std::size_t key : keys_) {
      const bool known = key < work_.counts.size();
      const bool other = known && step.what == What::shape && key == step.key;
      values_[key].resize(known ? work_.counts[key] + (other ? 3 : 0) : 17);
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
    return key < work_.counts.size() ? std::to_string(key) : "more " + std::to_string(news_);
  }

  void submit_and_wait(const Step& step) {
    const bool one_by_one = work_.one_by_one && step.same_order();
    const bool one_call = one_call_ && !one_by_one;
    const CallOptions options{.op = work_.op};
    std::vector<Pending> pendings;
    std::vector<Key> names;
    std::vector<Values> lists;
    for (const std::size_t key : keys_) {
      names.push_back(name(key));
      lists.emplace_back(tensor(key));
      if (one_call) continue;
      pendings.push_back(store_.pushpull(names.back(), tensor(key), tensor(key), options));
      if (one_by_one) pendings.back().wait();
    }
    if (one_call) pendings.push_back(store_.pushpull(names, lists, lists, options));
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
        wrong += is_right(step, number, key, i) ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }

  bool is_right(const Step& step, int number, std::size_t key, std::size_t i) const {
    int ranks = store_.num_workers();
    float right = expected_sum(ranks, key, number, i);
    if (step.what == What::join) right -= value_of(step.who, key, number, i), --ranks;
    if (work_.op == ReduceOp::average) right /= static_cast<float>(ranks);
    return std::abs(values_[key][i] - right) <=
           (work_.op == ReduceOp::average ? 1e-6F * right : 0.0F);
  }

  KVStore& store_;
  const Work work_;
  std::mt19937_64 own_;
  const bool one_call_;
  std::vector<std::size_t> keys_;
  std::vector<std::vector<float>> values_;
  int news_ = 0;
};

Work random_work(std::mt19937_64& shared) {
  Work work;
  work.counts.resize(2 + shared() % 7);
  for (std::size_t& count : work.counts) count = shared() % 8 == 0 ? 50'000 : shared() % 500;
  work.op = shared() % 2 == 0 ? ReduceOp::sum : ReduceOp::average;
  work.one_by_one = shared() % 2 == 0;
  return work;
}

Options replay_options(std::mt19937_64& shared) {
  Options options = Options::from_env();
  options.replay = true;
  options.part_bytes = shared() % 2 == 0 ? 0 : 10'000;
  return options;
}

}  // namespace

TEST_CASE("steps that are replayed may be left at any of them, and the sums stay right") {
  try_stores(4, replay_options, [](KVStore& store, std::mt19937_64& shared, std::mt19937_64& own) {
    const Work work = random_work(shared);
    Walker walker(store, work, own());
    int silent = 0;
    for (int number = 0; number < steps; ++number) {
      const Step step = random_step(shared, number, store.num_workers(), work.counts.size());
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
