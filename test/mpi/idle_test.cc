// Waiting costs next to nothing: all threads of every rank counted. Run under mpirun.
#include <cstdio>
#include <ctime>
#include <thread>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace std::chrono_literals;

namespace {

constexpr auto idle_time = 5s;

/// Of all threads of this process, ended ones included.
double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Large and small tensors, as a training step has.
void step(KVStore& store, std::vector<std::vector<float>>& values) {
  std::vector<Pending> pending;
  for (std::size_t key = 0; key < values.size(); ++key) {
    const Shape shape{static_cast<std::int64_t>(values[key].size())};
    const Tensor tensor(values[key].data(), shape, DType::f32);
    pending.push_back(store.pushpull(static_cast<int>(key), tensor, tensor));
  }
  for (const Pending& each : pending) each.wait();
}

std::vector<std::vector<float>> make_values() {
  std::vector<std::vector<float>> values;
  for (const std::size_t size : {10U, 100U, 10'000U, 2'000'000U}) values.emplace_back(size, 1.0F);
  return values;
}

/// The share of a core that `what` takes on this rank, in percent; printed.
template <typename What>
double percent_of_a_core(const KVStore& store, const char* name, const What& what) {
  const double before = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  what();
  const std::chrono::duration<double> lasted = std::chrono::steady_clock::now() - start;
  const double percent = 100 * (cpu_seconds() - before) / lasted.count();
  std::printf("rank %d of %d on %d nodes, %s for %.1f s: %.3f %% of a core\n", store.rank(),
              store.num_workers(), static_cast<int>(store.counters().nodes), name, lasted.count(),
              percent);
  return percent;
}

}  // namespace

TEST_CASE("a store that is left idle between steps takes at most 1 % of a core on any rank") {
  Options options = Options::from_env();
  options.replay = GENERATE(false, true);
  auto store = make_store(options);
  auto values = make_values();
  for (int i = 0; i < 10; ++i) step(*store, values);
  const double percent =
      percent_of_a_core(*store, "idle", [] { std::this_thread::sleep_for(idle_time); });
  CHECK(percent <= 1);
  step(*store, values);
}

TEST_CASE("a rank that waits for a late peer takes at most 1 % of a core") {
  Options options = Options::from_env();
  options.replay = GENERATE(false, true);
  auto store = make_store(options);
  auto values = make_values();
  for (int i = 0; i < 10; ++i) step(*store, values);
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  store->barrier();
  if (store->rank() == store->num_workers() - 1) {
    std::this_thread::sleep_for(idle_time + 500ms);
    store->pushpull(99, tensor, tensor).wait();
  } else {
    const Pending pending = store->pushpull(99, tensor, tensor);
    bool came = true;
    const double percent =
        percent_of_a_core(*store, "waiting", [&] { came = pending.wait_for(idle_time); });
    CHECK_FALSE(came);
    CHECK(percent <= 1);
    pending.wait();
  }
  CHECK(value == static_cast<float>(store->num_workers()));
}
