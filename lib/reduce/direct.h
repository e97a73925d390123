#pragma once
#include <cstddef>
#include <span>

#include "tutti/tensor.h"

namespace tutti::reduce {

/// What follows the tree.
struct Finish {
  double divisor = 1;  ///< sums of floats only
  bool streaming = false;
};

/// One pass over all sources, the tree in registers. Aliasing as for `reduce`.
using Direct = void (*)(std::span<const void* const> sources, void* dst, std::size_t count,
                        Finish finish);

/// The loop of the best SIMD level here for so many sources; null for a pair of dtypes that is not
/// converted.
Direct find_sum(DType in, DType out, std::size_t sources);
Direct find_min(DType in, DType out, std::size_t sources);
Direct find_max(DType in, DType out, std::size_t sources);

}  // namespace tutti::reduce
