// The loops over a fixed number of sources; once for each SIMD level.
// The guard flips with every level, as Highway's foreach_target.h asks.
#if defined(TUTTI_REDUCE_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_DIRECT_INL_H_
#undef TUTTI_REDUCE_DIRECT_INL_H_
#else
#define TUTTI_REDUCE_DIRECT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "reduce/direct.h"
#include "reduce/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

struct Sum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D /*d*/, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Min {
  /// Equal floats differ at most in a zero's sign; or-ing picks -0, and makes a NaN of any NaN.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D /*d*/, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      const V equal = hn::Or(a, b);
      return hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Lt(b, a), b, equal));
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Neg(Min::apply(d, hn::Neg(a), hn::Neg(b)));
    } else {
      return hn::Max(a, b);
    }
  }
};

/// A loop of `n` sources of element In, folded by Op into Out (In::Acc is Out::Acc).
template <class In, class Out, class Op, std::size_t n>
class Loop {
  using Acc = typename In::Acc;
  using D = hn::ScalableTag<Acc>;
  using Stored = hn::Rebind<typename Out::Bits, D>;
  using V = hn::Vec<D>;
  static constexpr bool is_float = std::is_floating_point_v<Acc>;

 public:
  static void run(const void* const* sources, void* dst, std::size_t count, Finish finish) {
    const Loop loop(sources, static_cast<std::uint8_t*>(dst), finish);
    if (count < hn::Lanes(D())) {
      loop.run_padded(count);
    } else {
      loop.run_vectors(count);
    }
  }

 private:
  HWY_INLINE Loop(const void* const* sources, std::uint8_t* dst, Finish finish)
      : dst_(dst), finish_(finish), divide_(is_float && finish.divisor != 1) {
    for (std::size_t s = 0; s < n; ++s) {
      sources_[s] = static_cast<const std::uint8_t*>(sources[s]);
    }
  }

  /// Fewer elements than a vector has: through buffers of a vector's size, so that no other code
  /// than the vectors' computes anything.
  HWY_NOINLINE void run_padded(std::size_t count) const {
    alignas(64) std::uint8_t in[n][HWY_MAX_BYTES] = {};
    alignas(64) std::uint8_t out[HWY_MAX_BYTES];
    const void* padded[n];
    for (std::size_t s = 0; s < n; ++s) {
      std::memcpy(in[s], sources_[s], count * sizeof(typename In::Bits));
      padded[s] = in[s];
    }
    const Loop loop(padded, out, {finish_.divisor, false});
    hn::StoreU(loop.vector(0), Stored(), reinterpret_cast<typename Out::Bits*>(out));
    std::memcpy(dst_, out, count * sizeof(typename Out::Bits));
  }

  /// The first and the last vector overlap their neighbours. They are computed before anything is
  /// stored, since `dst` may be a source, and stored last; the bits they share are the same.
  HWY_INLINE void run_vectors(std::size_t count) const {
    const std::size_t lanes = hn::Lanes(D());
    const auto head = vector(0);
    const auto tail = vector(count - lanes);
    const std::size_t first = lanes - lanes_past_boundary(lanes);
    if (finish_.streaming && may_stream()) {
      for (std::size_t i = first; i + lanes <= count; i += lanes) {
        hn::Stream(vector(i), Stored(), at(i));
      }
      hwy::FlushStream();
    } else {
      for (std::size_t i = first; i + lanes <= count; i += lanes) {
        hn::StoreU(vector(i), Stored(), at(i));
      }
    }
    hn::StoreU(head, Stored(), at(0));
    hn::StoreU(tail, Stored(), at(count - lanes));
  }

  HWY_INLINE typename Out::Bits* at(std::size_t i) const {
    return reinterpret_cast<typename Out::Bits*>(dst_ + i * sizeof(typename Out::Bits));
  }

  /// How far `dst` is past a vector's boundary; 0 when no whole number of elements leads to one.
  HWY_INLINE std::size_t lanes_past_boundary(std::size_t lanes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(dst_);
    const std::size_t size = sizeof(typename Out::Bits);
    return address % size == 0 ? address % (lanes * size) / size : 0;
  }

  /// Highway streams whole registers of 16 bytes at least, on their boundaries.
  HWY_INLINE bool may_stream() const {
    const auto address = reinterpret_cast<std::uintptr_t>(dst_);
    const bool whole = hn::Lanes(D()) * sizeof(typename Out::Bits) >= 16;
    return whole && address % sizeof(typename Out::Bits) == 0;
  }

  /// The result of elements [i, i + lanes), as it is stored.
  HWY_INLINE hn::Vec<Stored> vector(std::size_t i) const {
    const D d;
    V v = tree<0, n>(i);
    if constexpr (is_float) {
      if (divide_) {
        v = hn::Div(v, hn::Set(d, static_cast<Acc>(finish_.divisor)));
      }
      const V quiet = hn::Set(d, std::numeric_limits<Acc>::quiet_NaN());
      v = hn::IfThenElse(hn::IsNaN(v), quiet, v);
    }
    return Out::encode(d, v);
  }

  template <std::size_t begin, std::size_t size>
  HWY_INLINE V tree(std::size_t i) const {
    if constexpr (size == 1) {
      return load(sources_[begin], i);
    } else {
      constexpr std::size_t left = std::bit_floor(size - 1);
      return Op::apply(D(), tree<begin, left>(i), tree<begin + left, size - left>(i));
    }
  }

  static HWY_INLINE V load(const std::uint8_t* source, std::size_t i) {
    using Bits = typename In::Bits;
    const D d;
    const hn::Rebind<Bits, D> bits;
    return In::decode(d, hn::LoadU(bits, reinterpret_cast<const Bits*>(source + i * sizeof(Bits))));
  }

  const std::uint8_t* sources_[n];
  std::uint8_t* dst_;
  Finish finish_;
  bool divide_;
};

template <class In, class Out, class Op>
Direct loop_over(std::size_t sources) {
  switch (sources) {
    case 1:
      if constexpr (std::is_same_v<Op, Sum>) {
        return &Loop<In, Out, Op, 1>::run;
      }
      return nullptr;
    case 2:
      return &Loop<In, Out, Op, 2>::run;
    case 3:
      return &Loop<In, Out, Op, 3>::run;
    case 4:
      return &Loop<In, Out, Op, 4>::run;
    case 8:
      return &Loop<In, Out, Op, 8>::run;
    default:
      return nullptr;
  }
}

/// Sums of integers are those of the unsigned ones: they wrap.
template <typename T, class Op>
Direct integer_loop(std::size_t sources) {
  using U = std::conditional_t<std::is_same_v<Op, Sum>, std::make_unsigned_t<T>, T>;
  return loop_over<Native<U>, Native<U>, Op>(sources);
}

template <class Half, class Op>
Direct half_loop(DType half, DType in, DType out, std::size_t sources) {
  if (in == out) {
    return loop_over<Half, Half, Op>(sources);
  }
  return in == half ? loop_over<Half, Native<float>, Op>(sources)
                    : loop_over<Native<float>, Half, Op>(sources);
}

template <class Op>
Direct find(DType in, DType out, std::size_t sources) {
  const bool narrowing = in == DType::f32 && (out == DType::f16 || out == DType::bf16);
  const bool widening = out == DType::f32 && (in == DType::f16 || in == DType::bf16);
  if (in != out && !narrowing && !widening) {
    return nullptr;
  }
  switch (narrowing ? out : in) {
    case DType::f16:
      return half_loop<Float16, Op>(DType::f16, in, out, sources);
    case DType::bf16:
      return half_loop<BFloat16, Op>(DType::bf16, in, out, sources);
    case DType::f32:
      return loop_over<Native<float>, Native<float>, Op>(sources);
    case DType::f64:
      return loop_over<Native<double>, Native<double>, Op>(sources);
    case DType::i8:
      return integer_loop<std::int8_t, Op>(sources);
    case DType::u8:
      return integer_loop<std::uint8_t, Op>(sources);
    case DType::i32:
      return integer_loop<std::int32_t, Op>(sources);
    case DType::i64:
      return integer_loop<std::int64_t, Op>(sources);
  }
  return nullptr;
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
