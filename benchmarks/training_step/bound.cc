#include "benchmarks/training_step/bound.h"

#include <algorithm>

namespace tutti::bench {

double seconds_per_byte(double link_gbps, int hosts) {
  constexpr double bits = 8;
  return 2.0 * (hosts - 1) / hosts * bits / (link_gbps * 1e9);
}

double step_bound(std::span<const LayerCost> layers, double seconds_per_byte) {
  double compute = 0;  // the time of both passes through layers l to L
  for (const LayerCost& layer : layers) compute += layer.backward + layer.forward;
  double bytes = 0;  // of layers 1 to l
  double bound = 0;
  for (const LayerCost& layer : layers) {
    bytes += layer.bytes;
    bound = std::max(bound, compute + bytes * seconds_per_byte);
    compute -= layer.backward + layer.forward;
  }
  return bound;
}

}  // namespace tutti::bench
