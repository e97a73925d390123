// Ends a job in a way that a program should not; see test_ending.py for what becomes of it.
//
//   ending HOW
//
// open       main returns 0, and a global object still owns the store
// exit       rank 1 calls exit(3) while the others wait for it
// callback   the last owner of the store dies inside a callback
// memory     rank 1 gets no more memory while it waits
// leaving    rank 1 gets no more memory while it closes the store and a tensor still moves
// finalise   one thread finalises MPI while another destroys the store
// fork       children end by exit(0) while the store is open, and after; another makes a store
#include <fmt/format.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "trap.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti;
using namespace std::chrono_literals;

std::unique_ptr<KVStore> global_store;

void say(int rank, const std::string& what) {
  fmt::print("rank {} {}\n", rank, what);
  std::fflush(stdout);
}

int leave_open() {
  global_store = KVStore::create("dist_sync_mpi");
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  global_store->pushpull("key", tensor, tensor).wait();
  // Another rank's orderly end must not wait for what this one still computes.
  if (global_store->rank() == 1) std::this_thread::sleep_for(500ms);
  say(global_store->rank(), "returns");
  return 0;
}

int exit_early() {
  global_store = KVStore::create("dist_sync_mpi");
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  if (global_store->rank() == 1) {
    std::this_thread::sleep_for(300ms);
    std::exit(3);
  }
  global_store->pushpull("key", tensor, tensor).wait();
  return 0;
}

int die_in_callback() {
  std::shared_ptr<KVStore> store = KVStore::create("dist_sync_mpi");
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  std::this_thread::sleep_for(store->rank() * 300ms);
  const Pending pending = store->pushpull("key", tensor, tensor);
  // This thread does not wait, so the callback does not run on it.
  pending.then([owner = std::move(store)](const std::exception_ptr&) {});
  std::this_thread::sleep_for(10s);
  return 0;
}

/// The next allocation fails, on whichever thread.
std::atomic<bool> out_of_memory{false};

int run_out_of_memory() {
  auto store = KVStore::create("dist_sync_mpi");
  const int rank = store->rank();
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  // Rank 1 waits for the last one when its memory ends.
  if (rank == store->num_workers() - 1) std::this_thread::sleep_for(500ms);
  const Pending pending = store->pushpull("key", tensor, tensor);
  if (rank == 1) {
    std::this_thread::sleep_for(200ms);
    out_of_memory = true;
  }
  try {
    pending.wait();
    say(rank, "got its sum");
  } catch (const Error& error) {
    say(rank, fmt::format("caught {}: {}", name(error.code()), error.what()));
    // mpirun ends the others when the first is gone; they have something to say, too.
    std::this_thread::sleep_for(1s);
  }
  return 0;
}

int run_out_while_leaving() {
  Options options = Options::from_env();
  options.part_bytes = 0;
  auto store = KVStore::create("dist_sync_mpi", options);
  const int rank = store->rank();
  constexpr std::size_t count = std::size_t{1} << 22;
  const Shape shape{static_cast<std::int64_t>(count)};
  std::vector<float> own(count);
  // The trap is in the middle of rank 2's tensor, and later in rank 1's.
  fault::TrappedFloats trapped(rank == 2 ? count : count / 2 * 3);
  std::vector<Tensor> tensors{Tensor(trapped.all().data(), shape, DType::f32)};
  // The sum of two devices takes a little from the heap for each chunk.
  if (rank == 1) tensors.emplace_back(own.data(), shape, DType::f32);
  if (rank == 1) trapped.set([] { out_of_memory = true; });
  if (rank == 2) trapped.set([] { ::sleep(1); });
  store->pushpull("key", tensors, tensors);
  // By now the tensor has been planned, and stands still halfway.
  std::this_thread::sleep_for(300ms);
  store.reset();
  say(rank, "closed its store");
  // mpirun ends the others when the first is gone; they have something to say, too.
  std::this_thread::sleep_for(1s);
  return 0;
}

/// Whether a thread of a store runs. tutti-watch, which watches MPI_Finalize, does not count.
bool tutti_thread_runs() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.starts_with("tutti-") && name != "tutti-watch") return true;
  }
  return false;
}

/// Called when MPI goes on to be finalised: an attribute older than tutti's is deleted later.
int note_finalise(MPI_Comm /*comm*/, int /*key*/, void* /*value*/, void* /*extra*/) {
  // A thread that has been joined may be listed for a moment.
  for (int i = 0; i < 100 && tutti_thread_runs(); ++i) std::this_thread::sleep_for(1ms);
  if (tutti_thread_runs()) fmt::print("MPI is finalised while a store is open\n");
  return MPI_SUCCESS;
}

int finalise_beside() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_finalise, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  auto store = KVStore::create("dist_sync_mpi");
  const int rank = store->rank();
  // Rank 0's destructor waits for this one's.
  if (rank == 1) std::this_thread::sleep_for(500ms);
  std::thread other([&] { store.reset(); });
  std::this_thread::sleep_for(100ms);
  MPI_Finalize();
  other.join();
  say(rank, "ended in order");
  return 0;
}

/// Whether a child that does `what`, while its parent does something else, ends soon, and with
/// status 0.
bool child_ends_well(
    const std::function<void()>& what, const std::function<void()>& meanwhile = [] {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    what();
    std::exit(0);
  }
  meanwhile();
  int status = -1;
  for (int i = 0; i < 500; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child) return status == 0;
    std::this_thread::sleep_for(10ms);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return false;
}

void refuse_new_store() {
  try {
    KVStore::create("dist_sync_mpi");
    std::exit(1);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) std::exit(2);
  }
}

int fork_children() {
  auto store = KVStore::create("dist_sync_mpi");
  const int rank = store->rank();
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  const auto nothing = [] {};
  if (!child_ends_well(nothing)) say(rank, "has a child that ends badly beside the open store");
  if (!child_ends_well(refuse_new_store)) say(rank, "has a child that may make a store");
  store->pushpull("key", tensor, tensor).wait();
  // It is under way at the fork.
  constexpr std::size_t count = 5'000'000;
  std::vector<float> values(count, 1);
  const Tensor large(values.data(), {count}, DType::f32);
  const Pending pending = store->pushpull("large", large, large);
  std::this_thread::sleep_for(5ms);
  const auto drop = [&] {
    std::thread(nothing).join();
    store.reset();
  };
  if (!child_ends_well(drop, [&] { pending.wait(); })) {
    say(rank, "has a child that cannot drop the store");
  }
  const auto sum = static_cast<float>(store->num_workers());
  if (values != std::vector<float>(count, sum)) say(rank, "has a child that takes what arrives");
  store->pushpull("key", tensor, tensor).wait();
  store.reset();
  if (!child_ends_well(nothing)) say(rank, "has a child that ends badly after the store");
  say(rank, "ended in order");
  return 0;
}

}  // namespace

// Inlined, they would look to the compiler like mismatched pairs.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (out_of_memory.exchange(false)) throw std::bad_alloc();
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

int main(int argc, char** argv) {
  static const std::map<std::string, int (*)()> ways = {{"open", leave_open},
                                                        {"exit", exit_early},
                                                        {"callback", die_in_callback},
                                                        {"memory", run_out_of_memory},
                                                        {"leaving", run_out_while_leaving},
                                                        {"finalise", finalise_beside},
                                                        {"fork", fork_children}};
  return argc == 2 ? ways.at(argv[1])() : 2;
}
