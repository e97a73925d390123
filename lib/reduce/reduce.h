#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

/// Element kernels: pure functions over memory. Any thread may call them. They never block and
/// allocate nothing.
///
/// A result depends only on the kernel, and on the values in the order of `sources`. It does not
/// depend on the SIMD level, the alignment, the position in the array, or on other elements.
/// - f16 and bf16 are widened to f32. The whole tree is computed in f32 and rounded once, to the
///   nearest even. Denormals are kept, and a result that is too large becomes infinity.
/// - Integer sums wrap around. Their average divides the wrapped sum towards zero.
/// - min and max of floats are NaN if any source is NaN, and -0 is below +0.
/// - A NaN that was computed or converted is the positive quiet one without payload. Only the copy
///   of a single source of the same dtype keeps NaNs as they are.
///
/// This holds in the default floating-point environment, without flushing of denormals.
namespace tutti::reduce {

/// The reduction of one element.
struct Kernel {
  DType in;   ///< the dtype of the sources
  DType out;  ///< the dtype of the destination: `in`, or f32 for 16-bit floats, or the reverse
  ReduceOp op = ReduceOp::sum;
  /// `average` divides the sum by it, before rounding to `out`. This is a true division: by a
  /// double in f64, and by the nearest float in f16, bf16 and f32. Integers take a whole number of
  /// at least 1. The other operations ignore it.
  double divisor = 1;
};

/// dst[i] = op over sources[..][i], in the canonical binary tree: tree(n) is tree(the first k) op
/// tree(the rest), where k is the largest power of two below n. A single source is copied, and
/// converted if necessary.
///
/// Makes one pass over all sources. There is at least one. Any alignment is allowed. `dst` may be
/// one of the sources if `in` and `out` have the same size; otherwise it must overlap none.
/// `streaming` uses non-temporal stores. They are for results that are larger than the caches and
/// are not read soon. Throws `internal` for a pair of dtypes that no kernel converts, for a bad
/// divisor, and if there is no source.
void reduce(const Kernel& kernel, std::span<const void* const> sources, void* dst,
            std::size_t count, bool streaming = false);

/// Throws `internal` for a divisor that `reduce` refuses.
void check_divisor(const Kernel& kernel);

/// Does the same as `reduce`, but writes to several outputs, each of which may be one of the
/// sources. It works in small blocks. It prefetches the next block of the sources while it writes
/// the last one, because only simultaneous reading and writing uses the full memory bandwidth.
/// Moves the pointers of both lists behind the last element.
void reduce_to_all(const Kernel& kernel, std::span<const void*> sources, std::span<void*> outs,
                   std::size_t count, bool streaming = false);

/// Fills `dst` with the identity of `op`: 0 for sum and average (a sum of -0 becomes +0), the
/// largest value for min, and the lowest for max. For floats these are infinities.
void fill_identity(DType dtype, ReduceOp op, void* dst, std::size_t count);

/// The instruction set that was chosen at run time: "AVX3" (AVX-512), "AVX2", "SSE4", ...
std::string_view simd_level();

}  // namespace tutti::reduce
