// Stores over some of the job's ranks, in which something goes wrong; see test_groups.py.
//
//   grouped kill|exit   four ranks in stores over {0, 1}, {1, 2}, {2, 3} and all; rank 3 kills
//                       itself, or exits with status 3, while all are busy. Each rank says of every
//                       store it has how that ended
//   grouped differ      of three ranks, rank 1 creates a store over {0, 1} while the others create
//                       one over all but rank 3 of four; then all create that one
//   grouped apart       of three ranks, rank 0 creates a store over {0, 1} and the others one over
//                       all, the first of the job; nobody gets one, and all end
//   grouped order       of four ranks, rank 0 creates stores over {0, 1} and {0, 1, 2}, and rank 1
//                       the same ones the other way round, with rank 2
//   grouped absent      of three ranks, 0 and 1 create a store over them, the first of the job;
//   rank
//                       2 creates none
//   grouped starts      the same, but rank 2 calls MPI_Init
//   grouped open        three ranks return from main while stores over pairs of them are open
//   grouped keep        rank 1 of three keeps its stores over {0, 1} and {1, 2} open for 2 seconds
//                       longer than the others, who say how long their own closing took
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"
#include "variable.h"

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

int lose_one(const std::function<void()>& end) {
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
    end();
  }
  const std::string whole = use(*all, "weight");
  for (std::thread& thread : threads) thread.join();
  std::printf("rank %d: all: %s\n", rank, whole.c_str());
  for (const Use& one : uses)
    std::printf("rank %d: %s: %s\n", rank, one.name.c_str(), one.outcome.c_str());
  return 0;
}

/// Adds a 1 of each rank.
bool sums(KVStore& store) {
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  store.pushpull("one", tensor, tensor).wait();
  return value == static_cast<float>(store.num_workers());
}

/// Says why if it does not come up.
std::unique_ptr<KVStore> try_over(int rank, std::vector<int> ranks) {
  try {
    return over(std::move(ranks));
  } catch (const Error& error) {
    std::string late;
    for (const int one : error.ranks()) late += " " + std::to_string(one);
    std::printf("rank %d: %s, ranks%s: %s\n", rank, std::string(name(error.code())).c_str(),
                late.c_str(), error.what());
    return nullptr;
  }
}

int create_apart() {
  const int rank = number_in("OMPI_COMM_WORLD_RANK");
  try_over(rank, rank == 0 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2});
  return 0;
}

int create_in_two_orders() {
  const auto all = KVStore::create("dist_sync_mpi");
  const int rank = all->rank();
  std::vector<std::vector<int>> groups = {{0, 1}, {0, 1, 2}};
  if (rank == 1) std::swap(groups[0], groups[1]);
  for (const auto& group : groups) {
    if (rank < 2 || group.size() == static_cast<std::size_t>(rank) + 1) try_over(rank, group);
    // Without this barrier, a rank that has given up might join the first attempt of another one.
    all->barrier();
  }
  return 0;
}

int differ() {
  const auto all = KVStore::create("dist_sync_mpi");
  const int rank = all->rank();
  if (rank < 3) try_over(rank, rank == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2});
  // The barrier has the same reason as the one above.
  all->barrier();
  if (rank == 3) return 0;
  const auto store = over({0, 1, 2});
  std::printf("rank %d: then it %s\n", rank, sums(*store) ? "sums" : "errs");
  return 0;
}

/// `otherwise`: what rank 2 does instead.
int create_first_over_two(const std::function<void()>& otherwise) {
  const int rank = number_in("OMPI_COMM_WORLD_RANK");
  if (rank == 2) {
    otherwise();
    return 0;
  }
  const auto store = over({0, 1});
  std::printf("rank %d: it %s\n", rank, sums(*store) ? "sums" : "errs");
  return 0;
}

/// Nobody closes these stores before main returns.
std::vector<std::unique_ptr<KVStore>> global_stores;

void open_pairs(int rank) {
  for (const auto& [one, other] : {std::pair{0, 1}, {1, 2}, {0, 2}}) {
    if (rank != one && rank != other) continue;
    global_stores.push_back(over({one, other}));
    sums(*global_stores.back());
  }
}

int leave_open() {
  const int rank = KVStore::create("dist_sync_mpi")->rank();
  open_pairs(rank);
  std::printf("rank %d: returns\n", rank);
  return 0;
}

int keep_open() {
  const int rank = KVStore::create("dist_sync_mpi")->rank();
  std::vector<std::pair<std::string, std::unique_ptr<KVStore>>> stores;
  for (const int first : {0, 1}) {
    if (rank != first && rank != first + 1) continue;
    stores.emplace_back(std::to_string(first) + "-" + std::to_string(first + 1),
                        over({first, first + 1}));
    sums(*stores.back().second);
  }
  if (rank == 1) std::this_thread::sleep_for(2s);
  for (auto& [name, store] : stores) {
    const auto start = std::chrono::steady_clock::now();
    store.reset();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("rank %d: %s: closed in %.2f s\n", rank, name.c_str(), took.count());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  static const std::map<std::string, std::function<int()>> ways = {
      {"kill", [] { return lose_one([] { std::raise(SIGKILL); }); }},
      {"exit", [] { return lose_one([] { std::exit(3); }); }},
      {"differ", differ},
      {"apart", create_apart},
      {"order", create_in_two_orders},
      {"absent", [] { return create_first_over_two([] { std::this_thread::sleep_for(30s); }); }},
      {"starts",
       [] {
         return create_first_over_two([] {
           MPI_Init(nullptr, nullptr);
           MPI_Finalize();
         });
       }},
      {"open", leave_open},
      {"keep", keep_open}};
  return argc == 2 ? ways.at(argv[1])() : 2;
}
