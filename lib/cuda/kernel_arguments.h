#pragma once
// This header is for host and device code. It includes no other header of tutti.
#include <cstdint>

namespace tutti::cuda {

inline constexpr unsigned most_sources = 64;

/// The argument of every kernel in kernels.cu.
struct KernelArguments {
  const void* sources[most_sources];  // a GPU has no std::array
  void* dst;
  std::uint64_t count;         ///< elements
  double divisor;              ///< the divisor of the sum; 1: nothing is divided
  std::uint32_t source_count;  ///< 1 or more
};

}  // namespace tutti::cuda
