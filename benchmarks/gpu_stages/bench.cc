#include "benchmarks/gpu_stages/bench.h"

#include <algorithm>
#include <chrono>

namespace tutti::bench::gpu {

double median_seconds(double seconds, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t least = 3;
  work();
  std::vector<double> times;
  const auto start = Clock::now();
  for (auto begin = start;
       times.size() < least || std::chrono::duration<double>(begin - start).count() < seconds;) {
    work();
    const auto end = Clock::now();
    times.push_back(std::chrono::duration<double>(end - begin).count());
    begin = end;
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace tutti::bench::gpu
