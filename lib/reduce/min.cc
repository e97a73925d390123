// This file is compiled once for each SIMD level: foreach_target.h includes it again and again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/min.cc"
#include <hwy/foreach_target.h>

#include "reduce/direct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

Direct find_min(DType in, DType out, std::size_t sources) {
  return find<Min>(in, out, sources);
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::reduce {

HWY_EXPORT(find_min);

Direct find_min(DType in, DType out, std::size_t sources) {
  return HWY_DYNAMIC_DISPATCH(find_min)(in, out, sources);
}

}  // namespace tutti::reduce
#endif
