// The element kernels of lib/reduce for GPUs, with the same bits. They use no shared memory and
// nothing that threads of a warp do together, so that the tests compile them for the host, too.
//
// They are built without fused multiply-adds, like the host's kernels.
#include <cstdint>
#include <cstring>

#include "cuda/kernel_arguments.h"

namespace tutti::cuda::kernels {

using Arguments = KernelArguments;

template <typename To, typename From>
__device__ To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// Element types, by the names of their dtypes: `Bits` in memory, `Acc` in the tree.

template <typename T>
struct DeviceNative {
  using Bits = T;
  using Acc = T;
  static __device__ T decode(T bits) { return bits; }
  static __device__ T encode(T value) { return value; }
};
using f32 = DeviceNative<float>;
using f64 = DeviceNative<double>;
using i8 = DeviceNative<std::int8_t>;
using u8 = DeviceNative<std::uint8_t>;
using i32 = DeviceNative<std::int32_t>;
using i64 = DeviceNative<std::int64_t>;

struct bf16 {
  using Bits = std::uint16_t;
  using Acc = float;
  static __device__ float decode(Bits bits) { return bits_as<float>(std::uint32_t{bits} << 16); }
  /// Rounds to the nearest even. The only NaN that comes here is the quiet one, which stays one.
  static __device__ Bits encode(float value) {
    const auto bits = bits_as<std::uint32_t>(value);
    return static_cast<Bits>((bits + (bits >> 16 & 1) + 0x7FFF) >> 16);
  }
};

struct f16 {
  using Bits = std::uint16_t;
  using Acc = float;
  /// A normal number changes its exponent's bias from 15 to 127; infinity and NaN get the same
  /// difference once more. A denormal is its mantissa times 2^-24, a normal number in f32.
  static __device__ float decode(Bits bits) {
    const std::uint32_t magnitude = bits & 0x7FFF;
    const std::uint32_t sign = std::uint32_t{bits} - magnitude;
    std::uint32_t wide = (magnitude << 13) + bias;
    if (magnitude > 0x7BFF) wide += bias;
    if (magnitude < 0x0400) wide = bits_as<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
    return bits_as<float>(wide | sign << 16);
  }
  /// Rounds to the nearest even. Normal results are rounded in integers, where a carry goes into
  /// the exponent and up to infinity. Denormal results are rounded by adding 0.5, whose last bit is
  /// worth 2^-24.
  static __device__ Bits encode(float value) {
    const auto bits = bits_as<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFF;
    const std::uint32_t sign = (bits ^ magnitude) >> 16;
    std::uint32_t narrow = (magnitude - bias + 0x0FFF + (magnitude >> 13 & 1)) >> 13;
    if (magnitude < 113U << 23) {
      narrow = bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5F) - 0x3F000000;
    }
    if (magnitude > 0x477FEFFF) narrow = 0x7C00;  // from 65520 on
    if (magnitude > 0x7F800000) narrow = 0x7E00;
    return static_cast<Bits>(narrow | sign);
  }

 private:
  static constexpr std::uint32_t bias = (127 - 15) << 23;
};

// Integers wrap around, so they are added as unsigned ones.
__device__ inline float add(float a, float b) {
  return a + b;
}
__device__ inline double add(double a, double b) {
  return a + b;
}
template <typename T>
__device__ T add(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Floats that are equal or unordered give the OR of their bits: -0 if either is -0, and NaN if
/// either is NaN.
template <typename T>
__device__ T equal_or_nan(T a, T) {
  return a;
}
__device__ inline float equal_or_nan(float a, float b) {
  return bits_as<float>(bits_as<std::uint32_t>(a) | bits_as<std::uint32_t>(b));
}
__device__ inline double equal_or_nan(double a, double b) {
  return bits_as<double>(bits_as<std::uint64_t>(a) | bits_as<std::uint64_t>(b));
}
template <typename T>
__device__ T less(T a, T b) {
  return a < b ? a : b < a ? b : equal_or_nan(a, b);
}

// Operations, by their names.
struct sum {
  template <typename T>
  static __device__ T apply(T a, T b) {
    return add(a, b);
  }
};
struct min {
  template <typename T>
  static __device__ T apply(T a, T b) {
    return less(a, b);
  }
};
struct max {
  template <typename T>
  static __device__ T apply(T a, T b) {
    return a < b ? b : a;
  }
  static __device__ float apply(float a, float b) { return -less(-a, -b); }
  static __device__ double apply(double a, double b) { return -less(-a, -b); }
};

// The tree's value, divided for averages; all NaNs get one form.
__device__ inline float finished(float value, double divisor) {
  if (divisor != 1) value /= static_cast<float>(divisor);
  return value == value ? value : bits_as<float>(std::uint32_t{0x7FC00000});
}
__device__ inline double finished(double value, double divisor) {
  if (divisor != 1) value /= divisor;
  return value == value ? value : bits_as<double>(std::uint64_t{0x7FF8000000000000});
}
template <typename T>
__device__ T finished(T value, double divisor) {
  return divisor == 1 ? value : static_cast<T>(value / static_cast<std::int32_t>(divisor));
}

/// The neighbouring elements that one thread loads and stores together.
template <typename T, int width>
struct alignas(sizeof(T) * width) Pack {
  T elements[width];
};

/// Many loads are under way at the same time.
struct Aligned {
  static constexpr unsigned group = 8;
  template <typename T>
  static __device__ T load(const unsigned char* from) {
    return *reinterpret_cast<const T*>(from);
  }
  template <typename T>
  static __device__ void store(unsigned char* to, const T& value) {
    *reinterpret_cast<T*>(to) = value;
  }
};

/// Reads byte by byte, and source by source. This needs little code for a rare case.
struct Unaligned {
  static constexpr unsigned group = 1;
  template <typename T>
  static __device__ T load(const unsigned char* from) {
    T value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  template <typename T>
  static __device__ void store(unsigned char* to, const T& value) {
    memcpy(to, &value, sizeof value);
  }
};

/// Reduces elements [begin, begin + packs * width).
///
/// The canonical tree over n sources is the complete binary tree without the part to the right of
/// source n - 1. Trees over `group` sources are in registers. More groups are merged like the
/// digits of a binary counter: `partial` holds trees over `group` * 2^k sources, larger ones first.
template <class In, class Out, class Op, class Access, int width>
class Loop {
  using Acc = typename In::Acc;
  using Loaded = Pack<typename In::Bits, width>;
  using Stored = Pack<typename Out::Bits, width>;
  static constexpr unsigned group = Access::group;
  static constexpr unsigned levels = group == 8 ? 3 : 6;
  static_assert(most_sources == group << levels);

 public:
  static __device__ void run(const Arguments& arguments, std::uint64_t begin, std::uint64_t packs) {
    const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
    std::uint64_t pack = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    for (; pack < packs; pack += stride) {
      Acc result[width];
      reduce(arguments, begin + pack * width, result);
      Stored stored;
      for (int lane = 0; lane < width; ++lane) {
        stored.elements[lane] = Out::encode(finished(result[lane], arguments.divisor));
      }
      auto* const dst = static_cast<unsigned char*>(arguments.dst);
      Access::store(dst + (begin + pack * width) * sizeof(typename Out::Bits), stored);
    }
  }

 private:
  static __device__ void reduce(const Arguments& arguments, std::uint64_t at,
                                Acc (&result)[width]) {
    Acc partial[levels][width];
    unsigned depth = 0;
    const unsigned last = (arguments.source_count - 1) / group;
    for (unsigned g = 0; g < last; ++g) {
      reduce_group(arguments, g * group, at, result);
      for (unsigned carry = g; carry % 2 != 0; carry /= 2) merge(partial[--depth], result);
      for (int lane = 0; lane < width; ++lane) partial[depth][lane] = result[lane];
      ++depth;
    }
    reduce_group(arguments, last * group, at, result);
    while (depth > 0) merge(partial[--depth], result);
  }

  static __device__ void merge(const Acc (&left)[width], Acc (&right)[width]) {
    for (int lane = 0; lane < width; ++lane) right[lane] = Op::apply(left[lane], right[lane]);
  }

  /// Loads all sources before it uses one, so that the loads are under way at the same time.
  static __device__ void reduce_group(const Arguments& arguments, unsigned first, std::uint64_t at,
                                      Acc (&result)[width]) {
    const unsigned count =
        arguments.source_count - first < group ? arguments.source_count - first : group;
    Loaded loaded[group] = {};
#pragma unroll
    for (unsigned s = 0; s < group; ++s) {
      if (s >= count) continue;
      const auto* const source = static_cast<const unsigned char*>(arguments.sources[first + s]);
      loaded[s] = Access::template load<Loaded>(source + at * sizeof(typename In::Bits));
    }
#pragma unroll
    for (int lane = 0; lane < width; ++lane) result[lane] = tree<0, group>(loaded, lane, count);
  }

  template <unsigned first, unsigned leaves>
  static __device__ Acc tree(const Loaded (&loaded)[group], int lane, unsigned count) {
    if constexpr (leaves == 1) {
      return In::decode(loaded[first].elements[lane]);
    } else {
      constexpr unsigned half = leaves / 2;
      const Acc left = tree<first, half>(loaded, lane, count);
      if (count <= first + half) return left;
      return Op::apply(left, tree<first + half, half>(loaded, lane, count));
    }
  }
};

__device__ inline bool is_aligned(const Arguments& arguments, std::size_t source,
                                  std::size_t destination) {
  bool aligned = reinterpret_cast<std::uintptr_t>(arguments.dst) % destination == 0;
  for (unsigned s = 0; s < arguments.source_count; ++s) {
    aligned = aligned && reinterpret_cast<std::uintptr_t>(arguments.sources[s]) % source == 0;
  }
  return aligned;
}

template <class In, class Out, class Op>
__device__ void reduce(const Arguments& arguments) {
  constexpr int in = sizeof(typename In::Bits);
  constexpr int out = sizeof(typename Out::Bits);
  // The threads of a warp load 128 bytes together, a cache line.
  constexpr int largest = in > out ? in : out;
  constexpr int width = largest < 4 ? 4 / largest : 1;
  const bool aligned = is_aligned(arguments, in * width, out * width);
  const std::uint64_t packs = aligned ? arguments.count / width : 0;
  Loop<In, Out, Op, Aligned, width>::run(arguments, 0, packs);
  Loop<In, Out, Op, Unaligned, 1>::run(arguments, packs * width, arguments.count - packs * width);
}

}  // namespace tutti::cuda::kernels

/// Every kernel, as its operation and the dtypes of sources and destination.
#define TUTTI_KERNELS_OF(KERNEL, op) \
  KERNEL(op, f16, f16)               \
  KERNEL(op, bf16, bf16)             \
  KERNEL(op, f32, f32)               \
  KERNEL(op, f64, f64)               \
  KERNEL(op, i8, i8)                 \
  KERNEL(op, u8, u8)                 \
  KERNEL(op, i32, i32)               \
  KERNEL(op, i64, i64)               \
  KERNEL(op, f16, f32)               \
  KERNEL(op, bf16, f32)              \
  KERNEL(op, f32, f16)               \
  KERNEL(op, f32, bf16)
#define TUTTI_KERNELS(KERNEL)   \
  TUTTI_KERNELS_OF(KERNEL, sum) \
  TUTTI_KERNELS_OF(KERNEL, min) \
  TUTTI_KERNELS_OF(KERNEL, max)

#define TUTTI_KERNEL(op, in, out)                                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                               \
      tutti_##op##_##in##_##out(const __grid_constant__ tutti::cuda::KernelArguments arguments) { \
    using namespace tutti::cuda;                                                                  \
    kernels::reduce<kernels::in, kernels::out, kernels::op>(arguments);                           \
  }
TUTTI_KERNELS(TUTTI_KERNEL)
