#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// The operation by which the store combines the contributions of all devices and ranks. The
/// default is `sum`.
///
/// - `average` divides the sum by the number of ranks that contribute, which are those that have
///   not joined. It does not divide by the number of devices. Integers divide towards zero.
/// - Sums of integers wrap around.
/// - `min` and `max` give NaN where any contribution is NaN.
///
/// The store adds f16 and bf16 in f32, and rounds to 16 bits twice: first the sum over one
/// process's devices, then the sum over a node's ranks. So the first of these sums must fit into 16
/// bits. The store divides an average before the second rounding.
enum class ReduceOp : std::uint8_t { sum, average, min, max };

/// "sum", "average", "min" or "max".
TUTTI_EXPORT std::string_view name(ReduceOp op);

}  // namespace tutti
