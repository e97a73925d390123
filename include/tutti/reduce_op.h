#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// How the contributions of all devices and ranks become one value. `sum` is the default.
///
/// `average` divides the sum by the number of contributing ranks (those that have not joined), not
/// by the number of devices. Integers divide towards zero, and integer sums wrap around. `min` and
/// `max` give NaN where any contribution is NaN.
///
/// f16 and bf16 are accumulated in f32. The sum over one process's devices is rounded to 16 bits,
/// so it must fit into them. The sum over a node's ranks is rounded too; an average is divided
/// before this second rounding.
enum class ReduceOp : std::uint8_t { sum, average, min, max };

/// "sum", "average", "min" or "max".
TUTTI_EXPORT std::string_view name(ReduceOp op);

}  // namespace tutti
