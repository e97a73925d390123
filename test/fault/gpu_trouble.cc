// Sums tensors on the stand-in's GPU until something goes wrong; see test_gpu_trouble.py.
//
//   gpu_trouble sum    rounds of sums until an error comes
//   gpu_trouble kill   the same, and rank 1 is killed in the middle of the copies
//   gpu_trouble claim  one sum of a tensor that is said to be on gpu(0); its memory is the host's
//
// All use one GPU, or with GPU_TROUBLE_OWN each its own: then sums move by NCCL after a while, and
// rounds go on for as long as that may take.
//
// Ranks stay for GPU_TROUBLE_STAYS seconds, or 1, after that, for mpirun ends the others with the
// first. Rank 1 plays the faults that GPU_TROUBLE names, in the words of the stand-in's
// STANDIN_FAULTS.
#include <fmt/format.h>

#include <dlfcn.h>
#include <unistd.h>
#include <chrono>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/memory.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti;
using namespace std::chrono_literals;

void say(int rank, const std::string& what) {
  fmt::print("rank {} {}\n", rank, what);
  std::fflush(stdout);
}

bool is_rank_1() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank != nullptr && std::string_view(rank) == "1";
}

bool has_own_gpu() {
  return std::getenv("GPU_TROUBLE_OWN") != nullptr;
}

void sum_on(KVStore& store, const Tensor& tensor) {
  const int rounds = has_own_gpu() ? 5000 : 200;
  for (int round = 0; round < rounds; ++round) store.pushpull("weight", tensor, tensor).wait();
  say(store.rank(), "saw no error");
}

/// Waits for the middle of copies, or of the launches of NCCL, whose sends the stand-in counts.
void wait_for_the_middle() {
  if (!has_own_gpu()) {
    std::this_thread::sleep_for(300ms);
    return;
  }
  void* const library = ::dlopen("libnccl.so.2", RTLD_NOW);
  const auto calls = reinterpret_cast<int (*)(const char*)>(::dlsym(library, "standin_nccl_calls"));
  while (calls("ncclSend") < 20) std::this_thread::sleep_for(1ms);
}

/// Rank 1 says that it goes wrong, and is killed at once.
std::thread killer(int rank) {
  return std::thread([rank] {
    if (rank != 1) return;
    wait_for_the_middle();
    fmt::print("rank 1 (process {}) goes wrong: kill\n", ::getpid());
    std::fflush(stdout);
    std::raise(SIGKILL);
  });
}

int run(std::string_view how) {
  if (const char* const faults = std::getenv("GPU_TROUBLE"); faults != nullptr && is_rank_1()) {
    ::setenv("STANDIN_FAULTS", faults, 1);
  }
  auto store = KVStore::create("dist_sync_mpi");
  const int rank = store->rank();
  constexpr std::int64_t count = std::int64_t{1} << 20;
  std::optional<cuda::Gpu> gpu;
  std::optional<cuda::DeviceMemory> memory;
  std::vector<float> host(how == "claim" ? count : 0);
  const int ordinal = has_own_gpu() ? rank : 0;
  if (how != "claim") memory.emplace(gpu.emplace(ordinal), count * sizeof(float));
  void* const data = memory ? memory->data() : host.data();
  std::thread killing = killer(how == "kill" ? rank : 0);
  try {
    sum_on(*store, Tensor(data, {count}, DType::f32, {Device::Kind::gpu, ordinal}));
  } catch (const Error& error) {
    say(rank, fmt::format("caught {}: {}", name(error.code()), error.what()));
  }
  killing.join();
  store.reset();
  say(rank, "destroyed its store");
  const char* const stays = std::getenv("GPU_TROUBLE_STAYS");
  std::this_thread::sleep_for(std::chrono::seconds(stays != nullptr ? std::atoi(stays) : 1));
  std::fflush(nullptr);
  // A GPU that hangs would keep the process from its end.
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? argv[1] : "sum");
}
