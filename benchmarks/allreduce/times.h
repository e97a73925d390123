#pragma once
#include <vector>

namespace tutti::bench {

/// Of one thing done again and again; in the unit of what was summarised.
struct Times {
  double min = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  double avg = 0;
};

/// At least one.
Times summarise(std::vector<double> times);

}  // namespace tutti::bench
