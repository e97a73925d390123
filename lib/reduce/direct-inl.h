// The reduction loops, for certain numbers of sources and for any number. They are compiled once
// for each SIMD level. The guard flips with every level, as Highway's foreach_target.h requires.
#if defined(TUTTI_REDUCE_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_DIRECT_INL_H_
#undef TUTTI_REDUCE_DIRECT_INL_H_
#else
#define TUTTI_REDUCE_DIRECT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "reduce/direct.h"
#include "reduce/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

/// Memory for one SIMD vector.
template <typename T>
struct alignas(64) Buffer {
  T elements[HWY_MAX_BYTES / sizeof(T)];
};

using Sources = std::span<const void* const>;

struct Sum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D /*d*/, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Min {
  /// For floats that are equal or unordered, the OR of the bits: it gives -0 if either is -0, and
  /// NaN if either is NaN.
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

/// Reduces vectors of element type In in the canonical tree.
template <class In, class Op>
class Fold {
  using Bits = typename In::Bits;
  using D = hn::ScalableTag<typename In::Acc>;
  using Loaded = hn::Rebind<Bits, D>;
  using V = hn::Vec<D>;

  /// Loads a vector of a source.
  struct Whole {
    HWY_INLINE V operator()(const void* source, std::size_t i) const {
      return In::decode(D(), hn::LoadU(Loaded(), element(source, i)));
    }
  };
  /// Loads the first `count` elements of a vector, then zeros.
  struct Partly {
    std::size_t count;
    HWY_INLINE V operator()(const void* source, std::size_t i) const {
      return count == hn::Lanes(D()) ? Whole()(source, i) : first(source, i, count);
    }
  };

 public:
  /// Reduces elements [i, i + lanes) of sources[0, size).
  template <std::size_t size>
  static HWY_INLINE V of(const void* const* sources, std::size_t i) {
    return tree<size>(sources, i, Whole());
  }

  /// Reduces elements [i, i + count) of any number of sources, for count <= lanes. The canonical
  /// tree grows like a binary counter: `partial` holds the results of subtrees over 8 * 2^k
  /// sources, larger ones first. Two subtrees of one size are merged at once, so no two have the
  /// same size.
  static HWY_NOINLINE V any(Sources sources, std::size_t i, std::size_t count) {
    const D d;
    const Partly load{count};
    Buffer<typename In::Acc> partial[std::numeric_limits<std::size_t>::digits];
    std::size_t depth = 0;
    const std::size_t groups = sources.size() / 8;
    for (std::size_t g = 0; g < groups; ++g) {
      V v = tree<8>(&sources[8 * g], i, load);
      for (std::size_t carry = g; carry % 2 != 0; carry /= 2) {
        v = Op::apply(d, hn::Load(d, partial[--depth].elements), v);
      }
      hn::Store(v, d, partial[depth++].elements);
    }
    // The sources that do not fill a group of 8 are the rightmost subtree. From there the subtrees
    // are merged from right to left.
    const Sources rest = sources.last(sources.size() % 8);
    V v = rest.empty() ? hn::Load(d, partial[--depth].elements) : below_8(rest, i, load);
    while (depth > 0) {
      v = Op::apply(d, hn::Load(d, partial[--depth].elements), v);
    }
    return v;
  }

 private:
  static HWY_INLINE const Bits* element(const void* source, std::size_t i) {
    return reinterpret_cast<const Bits*>(static_cast<const std::uint8_t*>(source) +
                                         i * sizeof(Bits));
  }

  static HWY_NOINLINE V first(const void* source, std::size_t i, std::size_t count) {
    Buffer<Bits> padded{};
    std::memcpy(padded.elements, element(source, i), count * sizeof(Bits));
    return In::decode(D(), hn::Load(Loaded(), padded.elements));
  }

  template <std::size_t size, class Load>
  static HWY_INLINE V tree(const void* const* sources, std::size_t i, Load load) {
    if constexpr (size == 1) {
      return load(sources[0], i);
    } else {
      constexpr std::size_t left = std::bit_floor(size - 1);
      return Op::apply(D(), tree<left>(sources, i, load),
                       tree<size - left>(sources + left, i, load));
    }
  }

  template <class Load>
  static HWY_INLINE V below_8(Sources sources, std::size_t i, Load load) {
    switch (sources.size()) {
      case 1:
        return tree<1>(sources.data(), i, load);
      case 2:
        return tree<2>(sources.data(), i, load);
      case 3:
        return tree<3>(sources.data(), i, load);
      case 4:
        return tree<4>(sources.data(), i, load);
      case 5:
        return tree<5>(sources.data(), i, load);
      case 6:
        return tree<6>(sources.data(), i, load);
      default:
        return tree<7>(sources.data(), i, load);
    }
  }
};

/// Finishes the tree's value and writes it: divides it for averages, gives all NaNs one form, and
/// converts it to Out's bits.
template <class Out>
class Result {
  using Acc = typename Out::Acc;
  using Bits = typename Out::Bits;
  using D = hn::ScalableTag<Acc>;
  using Stored = hn::Rebind<Bits, D>;
  static constexpr bool is_float = std::is_floating_point_v<Acc>;

 public:
  HWY_INLINE Result(void* dst, Epilogue finish)
      : dst_(static_cast<std::uint8_t*>(dst)),
        divisor_(static_cast<Acc>(finish.divisor)),
        divides_(is_float && finish.divisor != 1) {}

  template <class V>
  HWY_INLINE void store(V v, std::size_t i) const {
    hn::StoreU(encode(v), Stored(), at(i));
  }
  template <class V>
  HWY_INLINE void stream(V v, std::size_t i) const {
    hn::Stream(encode(v), Stored(), at(i));
  }
  template <class V>
  HWY_INLINE void keep(V v, Buffer<Bits>& buffer) const {
    hn::Store(encode(v), Stored(), buffer.elements);
  }
  HWY_INLINE void copy(const Buffer<Bits>& buffer, std::size_t i, std::size_t count) const {
    std::memcpy(at(i), buffer.elements, count * sizeof(Bits));
  }

  /// The number of elements from `dst` to the next boundary of a vector. It is a whole vector if
  /// `dst` lies on a boundary, or if no number of elements leads to one.
  HWY_INLINE std::size_t to_boundary() const {
    const std::size_t lanes = hn::Lanes(D());
    return lanes - (has_boundary() ? address() % (lanes * sizeof(Bits)) / sizeof(Bits) : 0);
  }

  /// Highway's non-temporal stores need aligned registers of at least 16 bytes.
  HWY_INLINE bool may_stream() const {
    return has_boundary() && hn::Lanes(D()) * sizeof(Bits) >= 16;
  }

 private:
  template <class V>
  HWY_INLINE hn::Vec<Stored> encode(V v) const {
    const D d;
    if constexpr (is_float) {
      if (divides_) {
        v = hn::Div(v, hn::Set(d, divisor_));
      }
      const V quiet = hn::Set(d, std::numeric_limits<Acc>::quiet_NaN());
      v = hn::IfThenElse(hn::IsNaN(v), quiet, v);
    }
    return Out::encode(d, v);
  }

  HWY_INLINE Bits* at(std::size_t i) const {
    return reinterpret_cast<Bits*>(dst_ + i * sizeof(Bits));
  }
  HWY_INLINE std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(dst_); }
  HWY_INLINE bool has_boundary() const { return address() % sizeof(Bits) == 0; }

  std::uint8_t* dst_;
  Acc divisor_;
  bool divides_;
};

/// The tree over `n` sources, 0 for any number. `n` is a template argument, so that the loop does
/// not test it.
template <class In, class Op, std::size_t n>
class Tree {
 public:
  HWY_INLINE explicit Tree(Sources sources) { std::copy_n(sources.begin(), n, sources_.begin()); }
  HWY_INLINE auto operator()(std::size_t i) const {
    return Fold<In, Op>::template of<n>(sources_.data(), i);
  }

 private:
  std::array<const void*, n> sources_;  // a copy, so that no store through `dst` can change it
};

template <class In, class Op>
class Tree<In, Op, 0> {
 public:
  HWY_INLINE explicit Tree(Sources sources) : sources_(sources) {}
  HWY_INLINE auto operator()(std::size_t i) const {
    return Fold<In, Op>::any(sources_, i, hn::Lanes(hn::ScalableTag<typename In::Acc>()));
  }

 private:
  Sources sources_;
};

/// The first and the last vector may overlap their neighbours, or be the only ones. They are
/// computed before anything is stored, because `dst` may be a source, and stored last. Where
/// vectors overlap, their bits are the same.
template <class In, class Out, class Op, std::size_t n>
void loop(Sources sources, void* dst, std::size_t count, Epilogue finish) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<typename In::Acc>());
  const std::size_t edge = std::min(count, lanes);
  const Result<Out> result(dst, finish);
  Buffer<typename Out::Bits> head;
  Buffer<typename Out::Bits> tail;
  result.keep(Fold<In, Op>::any(sources, 0, edge), head);
  result.keep(Fold<In, Op>::any(sources, count - edge, edge), tail);
  const Tree<In, Op, n> tree(sources);
  const std::size_t first = result.to_boundary();
  if (finish.streaming && result.may_stream()) {
    for (std::size_t i = first; i + lanes <= count; i += lanes) {
      result.stream(tree(i), i);
    }
    hwy::FlushStream();
  } else {
    for (std::size_t i = first; i + lanes <= count; i += lanes) {
      result.store(tree(i), i);
    }
  }
  result.copy(head, 0, edge);
  result.copy(tail, count - edge, edge);
}

template <class In, class Out, class Op>
Direct loop_over(std::size_t sources) {
  switch (sources) {
    case 1:
      if constexpr (std::is_same_v<Op, Sum>) {
        return &loop<In, Out, Op, 1>;
      }
      return nullptr;
    case 2:
      return &loop<In, Out, Op, 2>;
    case 4:
      return &loop<In, Out, Op, 4>;
    case 8:
      return &loop<In, Out, Op, 8>;
    default:
      return &loop<In, Out, Op, 0>;
  }
}

/// Sums of integers are computed in unsigned types, in which they wrap around.
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
    default:
      return nullptr;
  }
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
