#pragma once
#include <cstddef>
#include <string_view>

#include "tutti/tensor.h"

namespace tutti::reduce {

/// What follows the tree.
struct Finish {
  double divisor = 1;  ///< sums of floats only
  bool streaming = false;
};

/// One loop over a fixed number of sources, the tree in registers. Aliasing as for `reduce`.
using Direct = void (*)(const void* const* sources, void* dst, std::size_t count, Finish finish);

/// Loops exist for these numbers of sources (1: `find_sum` alone); more make a tree of loops.
constexpr bool is_direct(std::size_t sources) {
  return sources <= 4 || sources == 8;
}
inline constexpr std::size_t max_direct = 8;

/// The loop of the best SIMD level here; null for a pair of dtypes that is not converted.
Direct find_sum(DType in, DType out, std::size_t sources);
Direct find_min(DType in, DType out, std::size_t sources);
Direct find_max(DType in, DType out, std::size_t sources);

}  // namespace tutti::reduce
