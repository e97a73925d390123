// A job in which one rank goes wrong. Survivors print what their wait() threw and exit with 42.
//
//   victim RANK HOW PHASE     HOW: kill, exit, stop     PHASE: idle, submitted, moving, barrier
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace {

using namespace tutti;

constexpr int survivor_status = 42;

struct Plan {
  int victim;
  std::string how;
  std::string phase;
};

void go_wrong(const Plan& plan) {
  fmt::print("rank {} goes wrong: {}\n", plan.victim, plan.how);
  std::fflush(stdout);
  if (plan.how == "kill") ::raise(SIGKILL);
  if (plan.how == "stop") ::raise(SIGSTOP);
  std::_Exit(7);
}

void train(KVStore& store, const Plan& plan) {
  const bool victim = store.rank() == plan.victim;
  std::vector<float> large(16'000'000, 1.0F);
  const Tensor tensor(large.data(), {16'000'000}, DType::f32);
  for (int step = 0;; ++step) {
    const bool now = victim && step == 3;
    if (now && plan.phase == "idle") go_wrong(plan);
    const Pending pending = store.pushpull("gradient", tensor, tensor);
    if (now && plan.phase == "submitted") go_wrong(plan);
    if (now && plan.phase == "moving") {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      go_wrong(plan);
    }
    pending.wait();
    if (now && plan.phase == "barrier") go_wrong(plan);
    store.barrier();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const Plan plan{std::atoi(argv[1]), argv[2], argv[3]};
  const auto store = KVStore::create("dist_sync_mpi");
  try {
    train(*store, plan);
  } catch (const Error& error) {
    fmt::print("rank {} caught {}: {}\n", store->rank(), name(error.code()), error.what());
    std::fflush(stdout);
    return survivor_status;
  }
}
