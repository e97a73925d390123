// A training loop that rank 1 leaves early: its stack unwinds, and the store is closed, before its
// process ends.
//
//   unwinding HOW
//
// throw      by an exception that main catches; exit code 7
// slow       so, and it takes long to end after that
// return     by the end of main; exit code 0
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "tutti/tutti.h"

namespace {

using namespace std::chrono_literals;
using namespace tutti;

constexpr int victim = 1;

void train(const std::string& how) {
  const auto store = KVStore::create("dist_sync_mpi");
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  for (int step = 0; step < 100; ++step) {
    if (step == 50 && store->rank() == victim) {
      if (how == "return") return;
      throw std::runtime_error("bad batch");
    }
    store->pushpull("key", tensor, tensor).wait();
  }
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const std::string how = argv[1];
  try {
    train(how);
  } catch (const Error& error) {
    std::fprintf(stderr, "survivor: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "victim: %s\n", error.what());
    if (how == "slow") std::this_thread::sleep_for(1s);
    return 7;
  }
}
