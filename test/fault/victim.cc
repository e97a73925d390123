// A job of several rounds, in which one rank goes wrong. The others print what was thrown at them,
// and exit with 42; when the rank goes on after all, everyone prints that its sums are right.
//
//   victim RANK HOW STAGE
//
// HOW    see ways.h
// STAGE  start      before it comes to MPI_Init, in which the others wait
//        duplicate, compare, connect, reserve  inside `create`: see create_steps.h
//        idle       between two rounds, while all compute
//        late       before it submits what the others wait for
//        submitted  when it has just submitted
//        replayed   before it submits what the others wait for in a replay
//        reading    in the middle of moving the data: at the middle of its own input
//        writing    ... of its own output
//        broadcast  ... of the tensor that rank 0 broadcasts
//        exchanged  ... of its own input to an all_to_all
//        barrier    while the others stand in a barrier
//        join       while the others have joined
//        recv       before it sends what the others wait for in a recv
//        sending    in the middle of what it sends them
//        close      while the others close their stores
//        closing    in its own close
//        closed     when its store is closed, as are the others'
//        second     while the others create a second store, having closed the first
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "create_steps.h"
#include "trap.h"
#include "tutti/tutti.h"
#include "ways.h"

namespace {

using namespace tutti;
using namespace std::chrono_literals;

constexpr int survivor_status = 42;
constexpr int rounds = 6;
constexpr int wrong_round = 3;
constexpr int most_replays = 2000;
/// Long enough for the others to wait where the stage wants them.
constexpr auto head_start = 300ms;
/// The sums of this many elements are exact in f32, and half a tensor is whole pages.
constexpr std::size_t elements = std::size_t{4} << 20;

/// The failure of one rank, and when it happens. The other ranks do nothing.
class Wrong {
 public:
  Wrong(int victim, std::string how, std::string stage)
      : victim_(victim), how_(std::move(how)), stage_(std::move(stage)) {}

  bool at(const char* stage) const { return fault::rank() == victim_ && stage_ == stage; }
  int victim() const { return victim_; }
  /// The others do then what the stage wants of them.
  bool at_any_rank(const char* stage) const { return stage_ == stage; }
  void now() const { fault::go_wrong(how_); }
  void late() const {
    std::this_thread::sleep_for(head_start);
    now();
  }

  /// Lets the rank fail halfway through a call that moves these floats on another thread. That
  /// thread stands still meanwhile, but not for ever, because an orderly exit waits for it.
  void halfway(fault::TrappedFloats& floats) const {
    floats.set([] {
      sprung = true;
      sprung.notify_one();
      while (!struck) ::usleep(100);
      ::usleep(20'000);
    });
  }
  void when_halfway() const {
    sprung.wait(false);
    struck = true;
    now();
  }

 private:
  static inline std::atomic<bool> sprung{false};
  static inline std::atomic<bool> struck{false};

  const int victim_;
  const std::string how_;
  const std::string stage_;
};

/// They outlive the store, which may be closed while they move.
struct Buffers {
  fault::TrappedFloats in{elements};
  fault::TrappedFloats out{elements};
};

class Job {
 public:
  Job(KVStore& store, const Wrong& wrong, Buffers& buffers)
      : store_(store), wrong_(wrong), in_(buffers.in), out_(buffers.out) {}

  void run() {
    for (int round = 0; round < rounds; ++round) {
      wrong_now_ = round == wrong_round;
      if (wrong_now_ && wrong_.at_any_rank("idle")) compute();
      if (wrong_now_ && wrong_.at_any_rank("replayed")) replay();
      if (wrong_now_ && wrong_.at_any_rank("join")) join();
      if (wrong_now_ && (wrong_.at_any_rank("recv") || wrong_.at_any_rank("sending"))) pass(round);
      reduce(round);
      broadcast(round);
      exchange(round);
      if (at("barrier")) wrong_.late();
      store_.barrier();
    }
  }

 private:
  bool at(const char* stage) const { return wrong_now_ && wrong_.at(stage); }

  void compute() const {
    if (at("idle")) wrong_.late();
    std::this_thread::sleep_for(2 * head_start);
  }

  /// Repeats rounds until the victim has seen that they need no message to the coordinator.
  void replay() {
    const Tensor tensor(in_.all().data(), {1000}, DType::f32);
    for (int i = 0; i < most_replays; ++i) {
      const auto messages = store_.counters().control_messages;
      store_.pushpull("replayed", tensor, tensor).wait();
      if (at("replayed") && store_.counters().control_messages == messages) wrong_.late();
    }
  }

  void join() {
    if (at("join")) wrong_.late();
    store_.join();
  }

  /// The rank that goes wrong sends to all others.
  void pass(int round) {
    if (store_.rank() != wrong_.victim()) {
      store_.recv(tensor(out_), wrong_.victim()).wait();
      return check(out_, static_cast<float>(round), "message");
    }
    std::ranges::fill(in_.all(), static_cast<float>(round));
    if (at("recv")) wrong_.late();
    if (at("sending")) wrong_.halfway(in_);
    std::vector<Pending> pending;
    for (int rank = 0; rank < store_.num_workers(); ++rank) {
      if (rank != store_.rank()) pending.push_back(store_.send(tensor(in_), rank));
    }
    if (at("sending")) wrong_.when_halfway();
    for (const Pending& each : pending) each.wait();
  }

  void reduce(int round) {
    if (at("late")) wrong_.late();
    std::ranges::fill(in_.all(), static_cast<float>(store_.rank() + round));
    if (at("reading")) wrong_.halfway(in_);
    if (at("writing")) wrong_.halfway(out_);
    const Pending pending = store_.pushpull("gradient", tensor(in_), tensor(out_));
    if (at("submitted")) wrong_.now();
    if (at("reading") || at("writing")) wrong_.when_halfway();
    pending.wait();
    const int ranks = store_.num_workers();
    const int sum = ranks * (ranks - 1) / 2 + ranks * round;
    check(out_, static_cast<float>(sum), "gradient");
  }

  void broadcast(int round) {
    std::ranges::fill(in_.all(), static_cast<float>(store_.rank() * 100 + round));
    if (at("broadcast")) wrong_.halfway(in_);
    const Pending pending = store_.broadcast("weight", tensor(in_), 0);
    if (at("broadcast")) wrong_.when_halfway();
    pending.wait();
    check(in_, static_cast<float>(round), "weight");
  }

  /// Every rank sends the same number of the same elements to every rank.
  void exchange(int round) {
    const auto ranks = static_cast<std::size_t>(store_.num_workers());
    const std::size_t share = elements / ranks;
    std::ranges::fill(in_.all(), static_cast<float>(round));
    std::ranges::fill(out_.all(), static_cast<float>(round));
    if (at("exchanged")) wrong_.halfway(in_);
    const auto shares = [&](const fault::TrappedFloats& floats) {
      return Tensor(floats.all().data(), {static_cast<std::int64_t>(share * ranks)}, DType::f32);
    };
    const Pending pending = store_.all_to_all("shares", shares(in_), shares(out_),
                                              std::vector<std::size_t>(ranks * ranks, share));
    if (at("exchanged")) wrong_.when_halfway();
    pending.wait();
    check(out_, static_cast<float>(round), "shares");
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
  const Wrong& wrong_;
  bool wrong_now_ = false;
  fault::TrappedFloats& in_;
  fault::TrappedFloats& out_;
};

std::unique_ptr<KVStore> create(const Wrong& wrong) {
  using fault::CreateStep;
  constexpr std::pair<const char*, CreateStep> steps[] = {{"duplicate", CreateStep::duplicate},
                                                          {"compare", CreateStep::compare},
                                                          {"connect", CreateStep::connect},
                                                          {"reserve", CreateStep::reserve}};
  if (wrong.at("start")) wrong.late();
  for (const auto& [stage, step] : steps) {
    if (wrong.at(stage)) fault::at_create_step(step, [&wrong] { wrong.now(); });
  }
  return KVStore::create("dist_sync_mpi");
}

/// Goes wrong about when the store tells the others that it leaves.
void close_and_go_wrong(std::unique_ptr<KVStore>& store, const Wrong& wrong) {
  std::thread beside([&wrong] {
    std::this_thread::sleep_for(std::chrono::microseconds(::getpid() % 200));
    wrong.now();
  });
  store.reset();
  beside.join();
}

void close(std::unique_ptr<KVStore>& store, const Wrong& wrong) {
  if (wrong.at("close")) wrong.late();
  if (wrong.at("closing")) return close_and_go_wrong(store, wrong);
  store.reset();
  if (wrong.at("closed")) wrong.late();
  if (!wrong.at_any_rank("second")) return;
  if (wrong.at("second")) wrong.late();
  store = KVStore::create("dist_sync_mpi");
  store.reset();
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

int run(const Wrong& wrong, Buffers& buffers) {
  std::unique_ptr<KVStore> store;
  try {
    store = create(wrong);
    Job(*store, wrong, buffers).run();
    close(store, wrong);
  } catch (const Error& error) {
    fmt::print("rank {} caught {}: {}\n", fault::rank(), name(error.code()), error.what());
    std::fflush(stdout);
    if (error.code() == ErrorCode::peer_lost && store) check_dead(*store);
    return survivor_status;
  }
  fmt::print("rank {} finished, and its sums were right\n", fault::rank());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  fault::say_when_terminated();
  const Wrong wrong(std::atoi(argv[1]), argv[2], argv[3]);
  Buffers buffers;
  try {
    return run(wrong, buffers);
  } catch (const fault::Unwinding&) {
    return 1;
  }
}
