#pragma once
#include <hwy/targets.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "reduce/reduce.h"

/// The results that the kernels must compute, one element at a time and in another way.
namespace reference {

using tutti::DType;
using tutti::ReduceOp;
using tutti::reduce::Kernel;
using Bytes = std::vector<std::byte>;

/// 16-bit floats by their definition: exact values in double, rounding by nearbyint.
struct Half {
  int fraction_bits;
  int bias;

  double value(std::uint16_t bits) const;
  /// NaN becomes the positive quiet one.
  std::uint16_t nearest(double value) const;
};
inline constexpr Half f16{10, 15};
inline constexpr Half bf16{7, 127};

/// The bytes that `reduce` must write.
Bytes reduced(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count);

/// Random elements. Floats: of one magnitude, of any magnitude, denormals, infinities, NaNs, zeros.
Bytes random_elements(DType dtype, std::size_t count, std::mt19937_64& random);

/// `count` elements of `n` sources, each at an address of its own alignment, reduced to an
/// unaligned address. Fails the test if a byte around the result changes.
Bytes computed(const Kernel& kernel, const std::vector<Bytes>& sources, std::size_t count,
               bool streaming = false, std::size_t misalignment = 1);

std::vector<Bytes> random_sources(DType dtype, std::size_t n, std::size_t count,
                                  std::mt19937_64& random);

/// Every pair of dtypes that has kernels, with every operation; averages divide by `divisor`.
std::vector<Kernel> all_kernels(double divisor);

/// Runs `body` at every SIMD level that this machine has.
template <typename Body>
void at_every_level(Body body) {
  for (const std::int64_t level : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(level);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace reference
