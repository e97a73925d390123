#include <algorithm>
#include <cstring>
#include <memory>

#include "benchmarks/gpu_stages/bench.h"
#include "cuda/memory.h"
#include "reduce/reduce.h"

namespace tutti::bench::gpu {
namespace {

/// A rank's part of a chunk: the rank adds up its shard of every rank's slot. The slots are pinned,
/// and so small that a chunk may stay in a cache, like those of a job.
class Shard {
 public:
  Shard(const Bench& bench, std::size_t sources, std::size_t chunk)
      : elements_(chunk / sources / sizeof(float)), result_(bench.gpu, elements_ * sizeof(float)) {
    for (std::size_t i = 0; i < sources; ++i) {
      slots_.push_back(std::make_unique<cuda::PinnedMemory>(bench.gpu, elements_ * sizeof(float)));
      std::ranges::fill(floats(*slots_.back()), 1.0F);
      places_.push_back(slots_.back()->data());
    }
  }

  void sum() const { reduce::reduce({DType::f32, DType::f32}, places_, result_.data(), elements_); }
  bool is_right() const {
    const auto right = static_cast<float>(places_.size());
    return std::ranges::all_of(floats(result_), [&](float found) { return found == right; });
  }

 private:
  std::span<float> floats(const cuda::PinnedMemory& memory) const {
    return {reinterpret_cast<float*>(memory.data()), elements_};
  }

  std::size_t elements_;
  cuda::PinnedMemory result_;
  std::vector<std::unique_ptr<cuda::PinnedMemory>> slots_;
  std::vector<const void*> places_;
};

}  // namespace

void measure_host_sums(const Bench& bench) {
  constexpr std::size_t largest_chunk = std::size_t{8} << 20;
  for (const std::size_t bytes : bench.sizes) {
    const std::size_t chunk = std::min(bytes, largest_chunk);
    for (const std::size_t sources : bench.sources) {
      const Shard shard(bench, sources, chunk);
      bench.meet();
      const double seconds = median_seconds(bench.seconds, [&] {
        for (std::size_t done = 0; done < bytes; done += chunk) shard.sum();
      });
      bench.print({{"part", "host sums"},
                   {"sources", sources},
                   {"bytes", bytes},
                   {"us", seconds * 1e6},
                   {"GBps", static_cast<double>(bytes) / seconds / 1e9},
                   {"wrong", shard.is_right() ? 0 : 1}});
    }
  }
}

}  // namespace tutti::bench::gpu
