#pragma once
#include <array>
#include <cstddef>
#include <span>

#include "cuda/gpu.h"
#include "reduce/reduce.h"

struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;

namespace tutti::cuda {

/// The element kernels of lib/reduce on a GPU, with the same bits. Any thread may use them.
class Kernels {
 public:
  /// Loads the kernels' code. Throws `unsupported` if the driver is too old for the device.
  explicit Kernels(const Gpu& gpu);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// Enqueues the work of `reduce::reduce`: dst[i] = op over sources[..][i], in the canonical tree.
  /// A single source is copied or converted, and divided by the divisor of an average. Sources and
  /// `dst` are memory that the GPU can reach, with any alignment. `dst` may be one of the sources
  /// if `in` and `out` have the same size. There are at most 64 sources. Needs the current context.
  /// Never blocks.
  void reduce(CUstream_st* stream, const reduce::Kernel& kernel,
              std::span<const void* const> sources, void* dst, std::size_t count) const;

 private:
  static constexpr std::size_t ops = 3;  // an average is a sum
  static constexpr std::size_t dtypes = 8;

  CUfunc_st*& function(ReduceOp op, DType in, DType out);
  CUfunc_st* function(ReduceOp op, DType in, DType out) const;

  const Gpu& gpu_;
  CUmod_st* module_ = nullptr;
  std::array<CUfunc_st*, ops * dtypes * dtypes> functions_{};
};

}  // namespace tutti::cuda
