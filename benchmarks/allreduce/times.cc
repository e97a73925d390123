#include "benchmarks/allreduce/times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti::bench {

Times summarise(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(times.size() - 1)))];
  };
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  return {times.front(), at(0.5), at(0.99), times.back(), sum / static_cast<double>(times.size())};
}

}  // namespace tutti::bench
