// A program that does not catch what ends it.
//
//   uncaught HOW
//
// mismatch   the ranks disagree, and every rank gets tutti's error
// own        so, but the program has a terminate handler of its own
// handled    so, but the program takes the log's lines, and handles SIGABRT: it exits with 8
// thread     so, and the program catches it, and then destroys a thread that nobody has joined
// other      an exception that is none of tutti's
// exit       no exception; every rank exits with status 3 and leaves its store open
// pairs      the same, with a store over ranks 0 and 1, and one over ranks 2 and 3
// late       the ranks disagree, rank 0 ends at once, and the others look for their error only when
//            they know that it has ended; each prints what it got
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/tutti.h"
#include "variable.h"

using namespace tutti;

namespace {

std::atomic<bool> rank_0_is_lost{false};

Pending disagree(KVStore& store, std::vector<float>& values) {
  const std::int64_t count = std::int64_t{4} + store.rank();
  values.resize(static_cast<std::size_t>(count));
  const Tensor tensor(values.data(), {count}, DType::f32);
  return store.pushpull("g", tensor, tensor);
}

void look_late(KVStore& store) {
  std::vector<float> values;
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  if (store.rank() == 0) {
    store.pushpull("h", tensor, tensor).wait();
    try {
      disagree(store, values).wait();
    } catch (const Error&) {
      std::_Exit(5);
    }
  }
  set_log_taker([](const LogLine& line) {
    if (line.text.find("rank 0 is lost") != std::string_view::npos) {
      rank_0_is_lost = true;
      rank_0_is_lost.notify_all();
    }
    return false;
  });
  const Pending late = disagree(store, values);
  store.pushpull("h", tensor, tensor).then([](const std::exception_ptr&) {
    rank_0_is_lost.wait(false);
  });
  rank_0_is_lost.wait(false);
  try {
    late.wait();
  } catch (const Error& error) {
    std::printf("rank %d got: %s\n", store.rank(), error.what());
    std::fflush(stdout);
    std::_Exit(6);
  }
}

void destroy_a_thread(KVStore& store) {
  std::vector<float> values;
  try {
    disagree(store, values).wait();
  } catch (const Error&) {
    std::fputs("caught it\n", stderr);
    const std::thread nobody_joins([] {});
  }
}

std::unique_ptr<KVStore> store_of(std::string_view how) {
  Options options = Options::from_env();
  if (how == "pairs") {
    const int first = number_in("OMPI_COMM_WORLD_RANK") / 2 * 2;
    options.ranks = {first, first + 1};
  }
  return KVStore::create("dist_sync_mpi", options);
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const std::string_view how = argv[1];
  if (how == "own") {
    std::set_terminate([] {
      std::fputs("the program's own handler\n", stderr);
      std::_Exit(9);
    });
  }
  if (how == "handled") {
    set_log_taker([](const LogLine&) { return true; });
    std::signal(SIGABRT, [](int) { std::_Exit(8); });
  }
  const auto store = store_of(how);
  if (how == "other") throw std::runtime_error("none of tutti's");
  if (how == "late") look_late(*store);
  if (how == "exit" || how == "pairs") std::exit(3);
  if (how == "thread") destroy_a_thread(*store);
  std::vector<float> values;
  disagree(*store, values).wait();
}
