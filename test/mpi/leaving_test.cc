// A rank that closes its store and then calls MPI no more for a while, as a program does that goes
// on to write a checkpoint; run under mpirun on hosts. All ranks see the same files.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "held_messages.h"
#include "p2p/frame.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using namespace std::chrono_literals;

namespace {

/// The leaver is not rank 0, because rank 0 leaves last.
constexpr int leaver = 1;
/// Longer than closing a store takes.
constexpr auto held_for = 400ms;
/// Numbers of floats: a tensor that travels with a gate, one that MPI sends at once, one that it
/// does not, and one of several parts.
constexpr std::size_t sizes[] = {2000, 10'000, 100'000, 1'000'000};

enum class Verb : std::uint8_t { broadcast, pushpull };

/// The means by which the other ranks tell a rank that may not call MPI that they have received
/// everything.
class Receipts {
 public:
  Receipts(std::uint64_t job, const std::string& what)
      : name_(fmt::format("tutti-{:x}-{}", job, what)) {}

  void give(int rank) const { std::ofstream(path(rank)) << "received\n"; }
  /// Returns false after a while if nothing comes.
  bool await_from(int rank) const {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!std::filesystem::exists(path(rank))) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }
  /// Waits for receipts from all other ranks.
  bool await(int own, int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank != own && !await_from(rank)) return false;
    }
    return true;
  }
  void remove(int rank) const { std::filesystem::remove(path(rank)); }

 private:
  std::filesystem::path path(int rank) const {
    return std::filesystem::temp_directory_path() / fmt::format("{}-{}", name_, rank);
  }

  std::string name_;
};

/// The last call of a store, which needs what the leaver has.
void bring(KVStore& store, Verb verb, std::size_t size) {
  std::vector<float> value(size, static_cast<float>(store.rank()));
  const Tensor tensor(value.data(), {static_cast<std::int64_t>(size)}, DType::f32);
  if (store.rank() == leaver) hold_messages(held_for);
  const int ranks = store.num_workers();
  const bool sums = verb == Verb::pushpull;
  (sums ? store.pushpull(1, tensor, tensor) : store.broadcast(1, tensor, leaver)).wait();
  const int expected = sums ? ranks * (ranks - 1) / 2 : leaver;
  CHECK(value == std::vector<float>(size, static_cast<float>(expected)));
}

/// The leaver leaves as soon as it has its own value, the others when they have theirs.
void leave_first(std::uint64_t job, Verb verb, std::size_t size) {
  auto store = make_store();
  const int rank = store->rank();
  const int ranks = store->num_workers();
  const Receipts receipts(job, fmt::format("{}-{}", static_cast<int>(verb), size));
  bring(*store, verb, size);
  if (rank != leaver) receipts.give(rank);
  store.reset();
  if (rank == leaver) CHECK(receipts.await(rank, ranks));
  hold_messages(0ms);
  // No receipt is removed before every rank has seen it.
  make_store()->barrier();
  receipts.remove(rank);
}

/// The texts that the ranks of the case below tell one another.
struct Told {
  explicit Told(std::uint64_t job)
      : ready(job, "ready"), busy(job, "busy"), probed(job, "probed") {}
  Receipts ready, busy, probed;
};

/// On rank 0: keeps its communication thread in a callback until all others have called MPI, so
/// that no rank is let go. Returns whether they called it. The other thread of rank 0 does not use
/// the store meanwhile.
bool hold_up(KVStore& store, const Tensor& tensor, const Told& told) {
  const auto probed = std::make_shared<std::promise<bool>>();
  const Pending pending = store.pushpull("small", tensor, tensor);
  pending.then([&told, probed, ranks = store.num_workers()](const std::exception_ptr&) {
    told.busy.give(0);
    probed->set_value(told.probed.await(0, ranks));
  });
  told.ready.give(0);
  return probed->get_future().get();
}

/// Another rank: closes its store, and tells rank 0 when it has called MPI meanwhile.
void leave_watched(std::unique_ptr<KVStore> store, const Tensor& tensor, const Told& told) {
  CHECK(told.ready.await_from(0));
  store->pushpull("small", tensor, tensor).wait();
  CHECK(told.busy.await_from(0));
  std::thread witness([&told, rank = store->rank(), before = probes()] {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (probes() == before && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(1ms);
    }
    if (probes() > before) told.probed.give(rank);
  });
  store.reset();
  witness.join();
}

}  // namespace

TEST_CASE(
    "what a rank sent last reaches the others though it closes its store and calls MPI no more") {
  const std::uint64_t job = agreed_seed();
  for (const Verb verb : {Verb::broadcast, Verb::pushpull}) {
    for (const std::size_t size : sizes) {
      INFO((verb == Verb::broadcast ? "broadcast of " : "pushpull of ") << size << " elements");
      leave_first(job, verb, size);
    }
  }
}

TEST_CASE("a small send ends well though its receiver has left before the answer comes") {
  auto store = make_store();
  std::vector<float> value(10, static_cast<float>(store->rank()));
  const Tensor tensor(value.data(), {10}, DType::f32);
  // A rank of another host than rank 0's.
  const int receiver = store->num_workers() - 1;
  if (store->rank() == receiver) {
    // The answer is a frame without elements.
    hold_messages(held_for, sizeof(p2p::Frame));
    store->recv(tensor, 0).wait();
    CHECK(value == std::vector<float>(10));
  } else if (store->rank() == 0) {
    CHECK_NOTHROW(store->send(tensor, receiver).wait());
  }
  store.reset();
  hold_messages(0ms);
  make_store()->barrier();
}

TEST_CASE("a rank that waits until it may leave calls MPI though it sent nothing of late") {
  const Told told(agreed_seed());
  auto store = make_store();
  const int rank = store->rank();
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  if (rank == 0) {
    CHECK(hold_up(*store, tensor, told));
    store.reset();
  } else {
    leave_watched(std::move(store), tensor, told);
  }
  make_store()->barrier();
  for (const Receipts* receipts : {&told.ready, &told.busy, &told.probed}) receipts->remove(rank);
}
