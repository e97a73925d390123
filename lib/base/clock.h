#pragma once
#include <chrono>

namespace tutti::base {

/// Monotonic time; durations keep their unit in the type.
using Clock = std::chrono::steady_clock;

}  // namespace tutti::base
