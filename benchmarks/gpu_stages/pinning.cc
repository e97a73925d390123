#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "base/mapping.h"
#include "benchmarks/gpu_stages/bench.h"
#include "cuda/memory.h"

namespace tutti::bench::gpu {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Each number is the best of three. Later ones include pages that the machine has not cleared yet.
class Pinning {
 public:
  Pinning(const Bench& bench, std::string memory, std::size_t bytes)
      : bench_(bench), memory_(std::move(memory)), bytes_(bytes) {}

  void run(const std::function<void()>& pin, const std::function<void()>& release) {
    pin_ = std::min(pin_, seconds_of(pin));
    release_ = std::min(release_, seconds_of(release));
  }
  void print(bool is_pinned) const {
    const double mib = static_cast<double>(bytes_) / (1 << 20);
    bench_.print({{"part", "pinning"},
                  {"memory", memory_},
                  {"is_pinned", is_pinned},
                  {"bytes", bytes_},
                  {"pin_us_per_MiB", pin_ * 1e6 / mib},
                  {"release_us_per_MiB", release_ * 1e6 / mib}});
  }

 private:
  const Bench& bench_;
  std::string memory_;
  std::size_t bytes_;
  double pin_ = 1e300;
  double release_ = 1e300;
};

constexpr int times = 3;

/// Memory that processes share. Its pages exist already, or pinning has to make them.
void register_mapping(const Bench& bench, std::size_t bytes, bool reserved) {
  Pinning pinning(bench, reserved ? "mapping" : "mapping without pages", bytes);
  bool is_pinned = true;
  for (int i = 0; i < times; ++i) {
    const base::Fd file = base::create_memory_file("gpu_stages", bytes);
    if (reserved) base::reserve(file, 0, bytes);
    const base::Mapping mapping(file, bytes);
    if (reserved) std::ranges::fill(mapping.span(), std::byte{1});
    std::unique_ptr<cuda::Registration> registration;
    pinning.run(
        [&] { registration = std::make_unique<cuda::Registration>(bench.gpu, mapping.span()); },
        [&] {
          is_pinned = is_pinned && registration->is_pinned();
          registration.reset();
        });
  }
  pinning.print(is_pinned);
}

void allocate(const Bench& bench, std::size_t bytes) {
  Pinning pinning(bench, "allocation", bytes);
  for (int i = 0; i < times; ++i) {
    std::unique_ptr<cuda::PinnedMemory> memory;
    pinning.run([&] { memory = std::make_unique<cuda::PinnedMemory>(bench.gpu, bytes); },
                [&] { memory.reset(); });
  }
  pinning.print(true);
}

}  // namespace

void measure_pinning(const Bench& bench) {
  bench.meet();
  for (const std::size_t bytes : bench.sizes) {
    register_mapping(bench, bytes, true);
    register_mapping(bench, bytes, false);
    allocate(bench, bytes);
  }
}

}  // namespace tutti::bench::gpu
