#pragma once
#include <chrono>

namespace tutti::base {

/// Monotonic time. Durations keep their unit in the type.
using Clock = std::chrono::steady_clock;

inline double in_seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace tutti::base
