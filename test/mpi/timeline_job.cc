// A job whose timeline is looked at afterwards: small, fused, large and broadcast tensors for some
// rounds, the last rank late each time. The argument, if any: "twice", with two stores one after
// the other; "loss", where the last rank dies; "create", which only creates a store; "full", where
// no file may grow any more when the store closes, as on a disk that is full; "full 1": of rank 1.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

using namespace std::chrono_literals;

namespace {

constexpr int rounds = 12;

struct Work {
  std::vector<std::string> names = {"small", "one", "two", "large"};
  std::vector<std::vector<float>> data;
  Work() {
    for (const std::size_t size : {100U, 50'000U, 60'000U, 3'000'000U})
      data.emplace_back(size, 1.0F);
  }

  void round(tutti::KVStore& store) {
    std::vector<tutti::Pending> pendings;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const tutti::Tensor tensor(data[i].data(), {static_cast<std::int64_t>(data[i].size())},
                                 tutti::DType::f32);
      pendings.push_back(store.pushpull(names[i], tensor, tensor));
    }
    for (const tutti::Pending& pending : pendings) pending.wait();
  }
};

void exchange(tutti::KVStore& store) {
  Work work;
  std::vector<float> weight(200'000, 1.0F);
  store.broadcast("weight", tutti::Tensor(weight.data(), {200'000}, tutti::DType::f32), 0).wait();
  for (int i = 0; i < rounds; ++i) {
    if (store.rank() == store.num_workers() - 1) std::this_thread::sleep_for(3ms);
    work.round(store);
  }
}

/// From now on a write of more than a page to a file fails.
void fill_disk() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

int run(const std::string& how, const std::string& whose) {
  for (int i = 0; i < (how == "twice" ? 2 : 1); ++i) {
    const auto store = tutti::KVStore::create("dist_sync_mpi");
    if (how == "create") continue;
    exchange(*store);
    if (how == "loss" && store->rank() == store->num_workers() - 1) std::raise(SIGKILL);
    if (how == "loss") exchange(*store);
    const bool is_mine = whose.empty() || whose == std::to_string(store->rank());
    if (how == "full" && is_mine) fill_disk();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "failed with %d: %s\n", static_cast<int>(error.code()), error.what());
    return 3;
  }
}
