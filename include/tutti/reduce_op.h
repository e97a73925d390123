#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// How the contributions of all devices and ranks become one value. `sum` is the default wherever
/// a KVStore is spoken of.
///
/// `average` divides the sum by the number of contributing ranks (those that have not joined), not
/// by the number of devices; integers divide towards zero. Integer sums wrap around. f16 and bf16
/// accumulate in f32. They are rounded to 16 bits where one process's devices are summed, so that
/// sum must fit, and again where a node's ranks are summed; an average is divided before that
/// rounding. `min` and `max` yield NaN where any contribution is NaN.
enum class ReduceOp : std::uint8_t { sum, average, min, max };

/// "sum", "average", "min" or "max".
TUTTI_EXPORT std::string_view name(ReduceOp op);

}  // namespace tutti
