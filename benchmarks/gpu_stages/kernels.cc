#include "cuda/kernels.h"

#include <algorithm>
#include <memory>

#include "benchmarks/gpu_stages/bench.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace tutti::bench::gpu {
namespace {

/// Sources that hold ones.
class Sources {
 public:
  Sources(const Bench& bench, DType dtype, std::size_t bytes)
      : bench_(bench), dtype_(dtype), bytes_(bytes), result_(bench.gpu, bytes) {
    const std::vector<std::byte> ones = numbers(1);
    for (std::size_t i = 0; i < std::ranges::max(bench.sources); ++i) {
      memory_.push_back(std::make_unique<cuda::DeviceMemory>(bench.gpu, bytes));
      places_.push_back(memory_.back()->data());
      stream_.copy_to_device(memory_.back()->data(), ones.data(), bytes);
    }
    stream_.synchronize();
  }

  /// The seconds for a sum of the first `count` sources. Several sums follow each other.
  double seconds(std::size_t count) const {
    constexpr int launches = 4;
    return median_seconds(bench_.seconds,
                          [&] {
                            for (int i = 0; i < launches; ++i) sum(count);
                            stream_.synchronize();
                          }) /
           launches;
  }

  bool is_right(std::size_t count) const {
    std::vector<std::byte> found(bytes_);
    stream_.copy_to_host(found.data(), result_.data(), bytes_);
    stream_.synchronize();
    return found == numbers(static_cast<float>(count));
  }

 private:
  void sum(std::size_t count) const {
    kernels_.reduce(stream_.handle(), {dtype_, dtype_}, std::span(places_).first(count),
                    result_.data(), bytes_ / size_of(dtype_));
  }

  std::vector<std::byte> numbers(float value) const {
    const std::vector<float> wide(bytes_ / size_of(dtype_), value);
    std::vector<std::byte> all(bytes_);
    const void* const from = wide.data();
    reduce::reduce({DType::f32, dtype_}, {&from, 1}, all.data(), wide.size());
    return all;
  }

  const Bench& bench_;
  DType dtype_;
  std::size_t bytes_;
  cuda::Stream stream_{bench_.gpu};
  cuda::Kernels kernels_{bench_.gpu};
  cuda::DeviceMemory result_;
  std::vector<std::unique_ptr<cuda::DeviceMemory>> memory_;
  std::vector<const void*> places_;
};

}  // namespace

void measure_kernels(const Bench& bench) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::size_t bytes : bench.sizes) {
      const Sources sources(bench, dtype, bytes);
      bench.meet();
      for (const std::size_t count : bench.sources) {
        const double seconds = sources.seconds(count);
        bench.print({{"part", "kernels"},
                     {"dtype", name(dtype)},
                     {"sources", count},
                     {"bytes", bytes},
                     {"us", seconds * 1e6},
                     {"GBps", static_cast<double>((count + 1) * bytes) / seconds / 1e9},
                     {"wrong", sources.is_right(count) ? 0 : 1}});
      }
    }
  }
}

}  // namespace tutti::bench::gpu
