// Four ranks in stores over {0, 1}, {1, 2}, {2, 3} and all. Rank 3 kills itself while all are busy.
// Each rank says of every store it has how that ended.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace {

using namespace std::chrono_literals;
using namespace tutti;

constexpr int victim = 3;
constexpr auto busy = 3s;

/// Exchanges until the time is up, or the store is dead. Says how it ended.
std::string use(KVStore& store, const char* key) {
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  const auto until = std::chrono::steady_clock::now() + busy;
  try {
    // All ranks of the store stop after the same round.
    for (float more = 1; more > 0;) {
      value = std::chrono::steady_clock::now() < until ? 1 : 0;
      store.pushpull(key, tensor, tensor, {.op = ReduceOp::min}).wait();
      more = value;
      std::this_thread::sleep_for(1ms);
    }
    return "lives";
  } catch (const Error& error) {
    std::string text = std::string(name(error.code())) + ", ranks";
    for (const int rank : error.ranks()) text += " " + std::to_string(rank);
    return text + ": " + error.what();
  }
}

std::unique_ptr<KVStore> over(std::vector<int> ranks) {
  Options options = Options::from_env();
  options.ranks = std::move(ranks);
  return KVStore::create("dist_sync_mpi", options);
}

}  // namespace

int main() {
  const auto all = KVStore::create("dist_sync_mpi");
  const int rank = all->rank();
  struct Use {
    std::string name;
    std::unique_ptr<KVStore> store;
    std::string outcome;
  };
  std::vector<Use> uses;
  for (int first = 0; first < victim; ++first) {
    if (rank != first && rank != first + 1) continue;
    uses.push_back(
        {std::to_string(first) + "-" + std::to_string(first + 1), over({first, first + 1}), ""});
  }
  std::vector<std::thread> threads;
  threads.reserve(uses.size());
  for (Use& one : uses) {
    threads.emplace_back([&one] { one.outcome = use(*one.store, "gradient"); });
  }
  if (rank == victim) {
    std::this_thread::sleep_for(500ms);
    std::raise(SIGKILL);
  }
  const std::string whole = use(*all, "weight");
  for (std::thread& thread : threads) thread.join();
  std::printf("rank %d: all: %s\n", rank, whole.c_str());
  for (const Use& one : uses)
    std::printf("rank %d: %s: %s\n", rank, one.name.c_str(), one.outcome.c_str());
}
