#pragma once
#include <vector>

namespace tutti::bench {

/// Statistics of a repeated measurement, in the unit of the times.
struct Times {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  double avg = 0;
};

/// `times` must not be empty.
Times summarise(std::vector<double> times);

}  // namespace tutti::bench
