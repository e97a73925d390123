#include "python/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "python/gpu_array.h"
#include "tutti/error.h"

namespace tutti::python {
namespace {

/// The number of NaNs and infinities of a tensor, and the first of them.
struct NonFinite {
  std::size_t count = 0;  ///< the number of elements that are not finite
  std::size_t first = 0;  ///< index of the first
  std::string_view what;  ///< the kind of the first: "inf", "-inf" or "NaN"
};

/// `exponent` holds the bits of the exponent. A NaN and an infinity have all of them. Apart from
/// its sign, an infinity has no other bits.
template <typename Bits>
NonFinite find(const Tensor& tensor, Bits exponent) {
  const auto bits_of = [memory = tensor.as<const char>()](std::size_t element) {
    Bits bits = 0;  // the element may have any alignment
    std::memcpy(&bits, memory + element * sizeof(Bits), sizeof(Bits));
    return bits;
  };
  const auto is_infinite = [&](std::size_t i) { return (bits_of(i) & exponent) == exponent; };
  Bits any = 0;  // has the width of the elements, so that the compiler takes many of them at once
  for (std::size_t i = 0; i < tensor.count(); ++i) any |= static_cast<Bits>(is_infinite(i));
  NonFinite found;
  if (any == 0) return found;
  for (std::size_t i = 0; i < tensor.count(); ++i) found.count += is_infinite(i) ? 1 : 0;
  while (!is_infinite(found.first)) ++found.first;
  constexpr auto sign = static_cast<Bits>(Bits{1} << (std::numeric_limits<Bits>::digits - 1));
  const Bits bits = bits_of(found.first);
  found.what = bits == exponent ? "inf" : bits == (exponent | sign) ? "-inf" : "NaN";
  return found;
}

NonFinite find(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f16:
      return find<std::uint16_t>(tensor, 0x7c00);
    case DType::bf16:
      return find<std::uint16_t>(tensor, 0x7f80);
    case DType::f32:
      return find<std::uint32_t>(tensor, 0x7f80'0000);
    case DType::f64:
      return find<std::uint64_t>(tensor, 0x7ff0'0000'0000'0000);
    default:
      return {};
  }
}

/// The indices of an element in row-major order.
std::vector<std::int64_t> place_of(std::size_t element, const Shape& shape) {
  std::vector<std::int64_t> place;
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t i = shape.dims().size(); i-- > 0;) {
    place.insert(place.begin(), rest % shape.dims()[i]);
    rest /= shape.dims()[i];
  }
  return place;
}

[[noreturn]] void refuse(std::string_view method, int rank, const Key& key, const Tensor& tensor,
                         const NonFinite& found) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} of key {}: rank {} brings an array of shape {} whose element [{}] is "
                  "{}, the first of {} that are not finite (check_finite=True)",
                  method, key.describe(), rank, tensor.shape().describe(),
                  fmt::join(place_of(found.first, tensor.shape()), ", "), found.what, found.count),
      {.key = key, .ranks = {rank}});
}

}  // namespace

void refuse_infinite(std::string_view method, int rank, std::span<const Key> keys,
                     std::span<const Values> values, bool first_alone) {
  for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i) {
    const std::size_t count =
        first_alone ? std::min<std::size_t>(values[i].size(), 1) : values[i].size();
    for (const Tensor& tensor : std::span(values[i].begin(), count)) {
      const NonFinite found = find(on_host(tensor));
      if (found.count > 0) refuse(method, rank, keys[i], tensor, found);
    }
  }
}

}  // namespace tutti::python
