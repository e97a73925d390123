// Converts elements in memory to vectors for arithmetic, and back. This is compiled once for each
// SIMD level. The guard flips with every level, as Highway's foreach_target.h requires.
#if defined(TUTTI_REDUCE_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_ELEMENT_INL_H_
#undef TUTTI_REDUCE_ELEMENT_INL_H_
#else
#define TUTTI_REDUCE_ELEMENT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// An element type: `Bits` in memory, `Acc` in the tree. `d` is always the tag of the Acc vector.
template <typename T>
struct Native {
  using Acc = T;
  using Bits = T;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V decode(D /*d*/, V bits) {
    return bits;
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V encode(D /*d*/, V v) {
    return v;
  }
};

struct BFloat16 {
  using Acc = float;
  using Bits = std::uint16_t;
  template <class D, class H>
  static HWY_INLINE hn::Vec<D> decode(D d, H bits) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  /// Rounds to the nearest even in integer arithmetic, because the instructions for it flush
  /// denormals. The only NaN that comes here is the quiet one without payload. It stays a NaN when
  /// it is rounded.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE auto encode(D /*d*/, V v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
    return hn::DemoteTo(hn::Rebind<Bits, D>(), hn::BitCast(di, hn::ShiftRight<16>(rounded)));
  }
};

/// SIMD levels whose f16 instructions (F16C) are exact. On others Highway emulates them, which is
/// not exact.
inline constexpr bool has_f16 = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

struct Float16 {
  using Acc = float;
  using Bits = std::uint16_t;

  template <class D, class H>
  static HWY_INLINE hn::Vec<D> decode(D d, H bits) {
    if constexpr (has_f16) {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
    } else {
      return widen(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
    }
  }

  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE auto encode(D d, V v) {
    const hn::Rebind<Bits, D> dh;
    if constexpr (has_f16) {
      return hn::BitCast(dh, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
    } else {
      return hn::DemoteTo(dh, hn::BitCast(hn::RebindToSigned<D>(), narrow(d, v)));
    }
  }

 private:
  /// A normal number changes its exponent's bias from 15 to 127; infinity and NaN get the same
  /// difference once more. A denormal is its mantissa times 2^-24, which f32 holds exactly as a
  /// normal number.
  template <class D, class U>
  static HWY_INLINE hn::Vec<D> widen(D d, U half) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto magnitude = hn::And(half, hn::Set(du, 0x7FFF));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
    const auto bias = hn::Set(du, (127 - 15) << 23);
    const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
    const auto special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7BFF));
    const auto large = hn::IfThenElse(hn::RebindMask(du, special), hn::Add(normal, bias), normal);
    const auto tiny = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::Set(d, 0x1p-24F));
    const auto is_tiny = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x0400));
    const auto wide = hn::IfThenElse(hn::RebindMask(d, is_tiny), tiny, hn::BitCast(d, large));
    return hn::Or(wide, hn::BitCast(d, sign));
  }

  /// Normal results are rounded in integer arithmetic, where a carry goes into the exponent, and up
  /// to infinity. Denormal results are rounded by adding 0.5, whose last bit is worth 2^-24, f16's
  /// smallest step.
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> narrow(D d, V v) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto magnitude = hn::BitCast(du, hn::Abs(v));
    const auto signed_magnitude = hn::BitCast(di, magnitude);
    const auto sign = hn::ShiftRight<16>(hn::Xor(hn::BitCast(du, v), magnitude));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    const auto rebias = hn::Set(du, 0x0FFFU - ((127U - 15U) << 23));
    const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, rebias)));
    const auto half = hn::Set(d, 0.5F);
    const auto tiny = hn::Sub(hn::BitCast(du, hn::Add(hn::Abs(v), half)), hn::BitCast(du, half));
    const auto is_tiny = hn::Lt(signed_magnitude, hn::Set(di, (127 - 14) << 23));
    const auto finite = hn::IfThenElse(hn::RebindMask(du, is_tiny), tiny, normal);
    const auto is_huge = hn::Gt(signed_magnitude, hn::Set(di, 0x477FEFFF));  // from 65520 on
    const auto bounded = hn::IfThenElse(hn::RebindMask(du, is_huge), hn::Set(du, 0x7C00), finite);
    const auto nan = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7F800000)));
    return hn::Or(sign, hn::IfThenElse(nan, hn::Set(du, 0x7E00), bounded));
  }
};

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
