#pragma once
#include <cstdint>

namespace tutti::observe {

// A trace gives its times in microseconds, and the library takes them in nanoseconds.
inline constexpr double ns_in_us = 1000;

inline double us(std::int64_t ns) {
  return static_cast<double>(ns) / ns_in_us;
}

}  // namespace tutti::observe
