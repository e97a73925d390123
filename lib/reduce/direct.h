#pragma once
#include <cstddef>
#include <span>

#include "tutti/tensor.h"

namespace tutti::reduce {

/// The operation on the tree's value.
struct Epilogue {
  double divisor = 1;  ///< sums of floats only
  bool streaming = false;
};

/// A loop that makes one pass over all sources, with the tree in registers. Aliasing is allowed as
/// for `reduce`.
using Direct = void (*)(std::span<const void* const> sources, void* dst, std::size_t count,
                        Epilogue finish);

/// The loop for this number of sources, for the best SIMD level of this machine. Null if there is
/// none, for example for dtypes that are not converted.
Direct find_sum(DType in, DType out, std::size_t sources);
Direct find_min(DType in, DType out, std::size_t sources);
Direct find_max(DType in, DType out, std::size_t sources);

}  // namespace tutti::reduce
