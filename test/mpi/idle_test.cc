// The cost of a store when nothing happens; run under mpirun. All threads of a process count.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace std::chrono_literals;

namespace {

constexpr auto nap = 5s;
constexpr double allowed = 0.01;  ///< of a core

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The part of a core that this process uses while `body` runs, and how long that takes.
struct Use {
  double cores = 0;
  double seconds = 0;
};

template <typename Body>
Use use_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  const double before = processor_seconds();
  body();
  const double used = processor_seconds() - before;
  const std::chrono::duration<double> lasted = std::chrono::steady_clock::now() - start;
  return {used / lasted.count(), lasted.count()};
}

/// A program's steps: tensors of all sizes, so that a plan is there and may be repeated.
class Steps {
 public:
  explicit Steps(KVStore& store) : store_(store) {
    for (const std::size_t size : {1U, 1000U, 30'000U, 500'000U}) values_.emplace_back(size, 1.0F);
  }

  void take(int count) {
    for (int i = 0; i < count; ++i) {
      submit();
      for (const Pending& pending : pendings_) pending.wait();
    }
  }

  void submit() {
    pendings_.clear();
    for (std::size_t key = 0; key < values_.size(); ++key) {
      std::vector<float>& value = values_[key];
      std::fill(value.begin(), value.end(), 1.0F);
      const Tensor tensor(value.data(), {static_cast<std::int64_t>(value.size())}, DType::f32);
      pendings_.push_back(store_.pushpull(static_cast<int>(key), tensor, tensor));
    }
  }

  /// Waits for the submitted tensors. Returns whether their sums are right.
  bool finish() {
    for (const Pending& pending : pendings_) pending.wait();
    const auto ranks = static_cast<float>(store_.num_workers());
    return std::all_of(values_.begin(), values_.end(),
                       [&](const auto& value) { return value.back() == ranks; });
  }

 private:
  KVStore& store_;
  std::vector<std::vector<float>> values_;
  std::vector<Pending> pendings_;
};

/// Each rank's use, told by all in one place and judged.
void judge(KVStore& store, const char* what, const Use& use) {
  std::vector<double> cores(static_cast<std::size_t>(store.num_workers()));
  cores[static_cast<std::size_t>(store.rank())] = use.cores;
  const Tensor tensor(cores.data(), {store.num_workers()}, DType::f64);
  store.pushpull(100, tensor, tensor).wait();
  if (store.rank() == 0) {
    std::string text;
    for (const double each : cores) text += fmt::format(" {:.3f}", 100 * each);
    fmt::print("{}, nodes {}, replay {}, % of a core by rank:{}\n", what, store.counters().nodes,
               Options::from_env().replay, text);
    std::fflush(stdout);
  }
  CHECK(use.cores <= allowed);
  CHECK(use.seconds > 4.5);
}

}  // namespace

TEST_CASE("a store left idle between two steps uses no more than 1 % of a core") {
  auto store = make_store();
  Steps steps(*store);
  steps.take(20);
  const Use use = use_of([] { std::this_thread::sleep_for(nap); });
  steps.take(1);
  judge(*store, "idle between steps", use);
}

TEST_CASE("ranks that wait for a late one use no more than 1 % of a core") {
  auto store = make_store();
  // Rank 0, where the coordinator is, and one that is on the last node if there are several.
  for (const int late : {0, store->num_workers() - 1}) {
    Steps steps(*store);
    steps.take(20);
    const bool mine = store->rank() == late;
    Use use = use_of([&] {
      if (mine) std::this_thread::sleep_for(nap);
      if (!mine) steps.submit();
      if (!mine) CHECK(steps.finish());
    });
    if (mine) {
      steps.submit();
      CHECK(steps.finish());
    }
    judge(*store, late == 0 ? "rank 0 is late" : "the last rank is late", use);
  }
}
