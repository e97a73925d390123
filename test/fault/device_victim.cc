// Tensors on a GPU are summed until a rank is killed in the middle. The others print, as a line of
// JSON each, what was thrown at them and how soon, and that the device works on.
//
//   device_victim RANK BYTES
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti;
using Clock = std::chrono::steady_clock;

/// Rounds that show how long one takes. The victim dies half a round later.
constexpr int rounds_before = 4;
constexpr int most_rounds = 10'000;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class OnDevice {
 public:
  OnDevice(const cuda::Gpu& gpu, std::size_t bytes) : gpu_(gpu), memory_(gpu, bytes) {}

  void fill(float value) const {
    const std::vector<float> host(memory_.size() / sizeof(float), value);
    const cuda::ContextGuard context(gpu_);
    const cuda::Stream stream(gpu_);
    stream.copy_to_device(memory_.data(), host.data(), memory_.size());
    stream.synchronize();
  }
  bool holds(float value) const {
    std::vector<float> host(memory_.size() / sizeof(float));
    const cuda::ContextGuard context(gpu_);
    const cuda::Stream stream(gpu_);
    stream.copy_to_host(host.data(), memory_.data(), memory_.size());
    stream.synchronize();
    return std::ranges::all_of(host, [&](float found) { return found == value; });
  }
  Tensor tensor() const {
    return {memory_.data(),
            {static_cast<std::int64_t>(memory_.size() / sizeof(float))},
            DType::f32,
            {Device::Kind::gpu, gpu_.ordinal()}};
  }

 private:
  const cuda::Gpu& gpu_;
  cuda::DeviceMemory memory_;
};

[[noreturn]] void die_after(std::chrono::nanoseconds time) {
  std::this_thread::sleep_for(time);
  std::raise(SIGKILL);
  std::abort();
}

/// Returns after an error alone, or if none came in very many rounds.
void reduce_until_error(KVStore& store, bool is_victim, const OnDevice& in, const OnDevice& out,
                        Clock::time_point& submitted) {
  for (int round = 0; round < most_rounds; ++round) {
    const auto last = Clock::now() - submitted;
    submitted = Clock::now();
    const Pending pending = store.pushpull("gradient", in.tensor(), out.tensor());
    if (is_victim && round == rounds_before) die_after(last / 2);
    pending.wait();
  }
}

int run(int victim, std::size_t bytes) {
  const cuda::Gpu gpu(0);
  const OnDevice in(gpu, bytes);
  const OnDevice out(gpu, bytes);
  in.fill(1);
  auto store = KVStore::create("dist_sync_mpi");
  nlohmann::ordered_json row{{"part", "killed rank"}, {"rank", store->rank()}, {"bytes", bytes}};
  row["error"] = "none";
  Clock::time_point submitted = Clock::now();
  try {
    reduce_until_error(*store, store->rank() == victim, in, out, submitted);
  } catch (const Error& error) {
    row["error"] = name(error.code());
    row["message"] = error.what();
  }
  row["ms"] = milliseconds_since(submitted);
  const auto closing = Clock::now();
  store.reset();
  row["close_ms"] = milliseconds_since(closing);
  out.fill(2);
  row["wrong"] = in.holds(1) && out.holds(2) ? 0 : 1;
  fmt::print("{}\n", row.dump());
  std::fflush(stdout);
  return row["error"] == "peer_lost" && row["wrong"] == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return run(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10));
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_victim: {}\n", error.what());
    return 1;
  }
}
