// A job of several rounds, in one of which one rank goes wrong. The others print what their wait()
// threw, and exit with 42; when the rank goes on after all, everyone prints that its sums are
// right.
//
//   victim RANK HOW PHASE
//
// HOW    kill, exit (with 3, the store open), stop (until somebody continues it), nap (1.5 s)
// PHASE  idle       between two rounds, while all compute
//        late       before it submits what the others wait for
//        submitted  when it has just submitted
//        reading    in the middle of moving the data: at the middle of its own input
//        writing    ... of its own output
//        broadcast  ... of the tensor that rank 0 broadcasts
//        barrier    while the others stand in a barrier
//        close      while the others close their stores
//        closing    in its own close
//        create     while the others create a second store
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "trap.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti;
using namespace std::chrono_literals;

constexpr int survivor_status = 42;
constexpr int victim_status = 3;
constexpr int rounds = 6;
constexpr int wrong_round = 3;
/// Long enough for the others to wait where the phase wants them.
constexpr auto head_start = 300ms;
/// Of which the sums are exact in f32, and half a tensor is whole pages.
constexpr std::size_t elements = std::size_t{4} << 20;

void announce(const char* how) {
  fmt::print("rank {} (process {}) goes wrong: {}\n", std::getenv("OMPI_COMM_WORLD_RANK"),
             ::getpid(), how);
  std::fflush(stdout);
}

void die_by_kill() {
  announce("kill");
  ::raise(SIGKILL);
}

void leave_by_exit() {
  announce("exit");
  std::exit(victim_status);
}

/// Inside a trap the thread that springs it holds tutti's locks.
void leave_at_once() {
  announce("exit");
  std::_Exit(victim_status);
}

void stop() {
  announce("stop");
  ::kill(::getpid(), SIGSTOP);
}

void nap() {
  announce("nap");
  std::this_thread::sleep_for(1500ms);
}

class Job {
 public:
  Job(KVStore& store, bool is_victim, std::string how, std::string phase)
      : store_(store), is_victim_(is_victim), how_(std::move(how)), phase_(std::move(phase)) {}

  void run() {
    for (int round = 0; round < rounds; ++round) {
      wrong_now_ = round == wrong_round;
      if (wrong_now_ && phase_ == "idle") compute();
      reduce(round);
      broadcast(round);
      if (at("barrier")) go_wrong_late();
      store_.barrier();
    }
  }

  void go_wrong_late() const {
    std::this_thread::sleep_for(head_start);
    go_wrong();
  }

  void go_wrong() const {
    static const std::map<std::string, void (*)()> ways = {
        {"kill", die_by_kill}, {"exit", leave_by_exit}, {"stop", stop}, {"nap", nap}};
    ways.at(how_)();
  }

 private:
  bool at(const char* phase) const { return is_victim_ && wrong_now_ && phase_ == phase; }

  void trap(fault::TrappedFloats& floats) const {
    static const std::map<std::string, void (*)()> ways = {
        {"kill", die_by_kill}, {"exit", leave_at_once}, {"stop", stop}};
    floats.set(ways.at(how_));
  }

  void compute() const {
    if (is_victim_) go_wrong_late();
    std::this_thread::sleep_for(2 * head_start);
  }

  void reduce(int round) {
    if (at("late")) go_wrong_late();
    std::ranges::fill(in_.all(), static_cast<float>(store_.rank() + round));
    if (at("reading")) trap(in_);
    if (at("writing")) trap(out_);
    const Pending pending = store_.pushpull("gradient", tensor(in_), tensor(out_));
    if (at("submitted")) go_wrong();
    pending.wait();
    const int ranks = store_.num_workers();
    const int sum = ranks * (ranks - 1) / 2 + ranks * round;
    check(out_, static_cast<float>(sum), "gradient");
  }

  void broadcast(int round) {
    std::ranges::fill(in_.all(), static_cast<float>(store_.rank() * 100 + round));
    if (at("broadcast")) trap(in_);
    store_.broadcast("weight", tensor(in_), 0).wait();
    check(in_, static_cast<float>(round), "weight");
  }

  static Tensor tensor(const fault::TrappedFloats& floats) {
    return {floats.all().data(), {static_cast<std::int64_t>(elements)}, DType::f32};
  }

  void check(const fault::TrappedFloats& floats, float expected, const char* key) const {
    if (std::ranges::count(floats.all(), expected) == elements) return;
    fmt::print("rank {} got a wrong {}\n", store_.rank(), key);
    std::_Exit(1);
  }

  KVStore& store_;
  bool is_victim_;
  std::string how_;
  std::string phase_;
  bool wrong_now_ = false;
  fault::TrappedFloats in_{elements};
  fault::TrappedFloats out_{elements};
};

/// Goes wrong about when its store tells the others that it leaves.
std::thread go_wrong_beside(const Job& job) {
  return std::thread([&job] {
    std::this_thread::sleep_for(std::chrono::microseconds(::getpid() % 200));
    job.go_wrong();
  });
}

/// A dead store gives no memory into which others may still write.
void check_dead(KVStore& store) {
  try {
    store.allocate({4}, DType::f32);
    fmt::print("rank {} got memory of a dead store\n", store.rank());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) return;
    fmt::print("rank {} got another error from a dead store: {}\n", store.rank(), error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string phase = argv[3];
  auto store = KVStore::create("dist_sync_mpi");
  const int rank = store->rank();
  const bool is_victim = rank == std::atoi(argv[1]);
  Job job(*store, is_victim, argv[2], phase);
  try {
    job.run();
    if (is_victim && phase == "close") job.go_wrong_late();
    if (phase == "create") {
      store.reset();
      if (is_victim) job.go_wrong_late();
      store = KVStore::create("dist_sync_mpi");
    }
    std::thread beside;
    if (is_victim && phase == "closing") beside = go_wrong_beside(job);
    store.reset();
    if (beside.joinable()) beside.join();
  } catch (const Error& error) {
    fmt::print("rank {} caught {}: {}\n", rank, name(error.code()), error.what());
    std::fflush(stdout);
    if (error.code() == ErrorCode::peer_lost && store) check_dead(*store);
    return survivor_status;
  }
  fmt::print("rank {} finished, and its sums were right\n", rank);
}
