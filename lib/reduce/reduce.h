#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

/// Element kernels: pure functions over memory, for any thread, never blocking, allocating nothing.
///
/// Bits. A result depends on the kernel and on the values in the order of `sources`, and on nothing
/// else: not on the SIMD level, alignment, position in the array, or on what is computed beside it.
/// - f16 and bf16 are widened to f32, the whole tree is computed in f32 and rounded once, to the
///   nearest even; denormals are kept and what is too large becomes infinity.
/// - Integer sums wrap around; their average divides the wrapped sum towards zero.
/// - min and max of floats: NaN where any source is NaN, and -0 is below +0.
/// - A NaN that was computed or converted is the positive quiet one without payload. Only the copy
///   of a single source of the same dtype keeps NaNs as they are.
/// This holds in the default floating-point environment: no flushing of denormals.
namespace tutti::reduce {

/// The reduction of one element.
struct Kernel {
  DType in;   ///< of the sources
  DType out;  ///< of the destination: `in`, or f32 for 16-bit floats, or back
  ReduceOp op = ReduceOp::sum;
  /// `average` divides the sum by it, before rounding to `out`: a true division, by a double in
  /// f64, by the nearest float in f16, bf16 and f32. Integers take a whole number of 1 or more.
  /// The other operations ignore it.
  double divisor = 1;
};

/// dst[i] = op over sources[..][i], in the canonical binary tree: tree(n) is tree(the first k) op
/// tree(the rest), where k is the largest power of two below n. One source is copied, and converted
/// if need be.
///
/// Makes one pass over all sources, at least one, of any alignment. `dst` may be one of the sources
/// if `in` and `out` have the same size; otherwise it must overlap none. `streaming` uses
/// non-temporal stores. They are for results that are larger than the caches and are not read soon.
/// Throws `internal` for a pair of dtypes that no kernel converts, a bad divisor or no source.
void reduce(const Kernel& kernel, std::span<const void* const> sources, void* dst,
            std::size_t count, bool streaming = false);

/// Throws `internal` for a divisor that `reduce` refuses.
void check_divisor(const Kernel& kernel);

/// Like `reduce`, but writes to several outputs, each of which may be one of the sources. It works
/// in small blocks, and prefetches the next block of the sources while it writes the last one,
/// because only reading and writing at once use the full memory bandwidth. Moves the pointers of
/// both lists behind the last element.
void reduce_to_all(const Kernel& kernel, std::span<const void*> sources, std::span<void*> outs,
                   std::size_t count, bool streaming = false);

/// Fills `dst` with the identity of `op`: 0 for sum and average (a sum of -0 becomes +0), the
/// largest value for min and the lowest for max, which are infinities for floats.
void fill_identity(DType dtype, ReduceOp op, void* dst, std::size_t count);

/// The instruction set chosen at run time: "AVX3" (AVX-512), "AVX2", "SSE4", ...
std::string_view simd_level();

}  // namespace tutti::reduce
