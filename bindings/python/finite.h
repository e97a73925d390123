#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "tutti/key.h"
#include "tutti/tensor.h"

namespace tutti::python {

/// Throws `invalid_argument` for the first NaN or infinity of these arrays, by key, and names key,
/// rank, place and value. `first_alone`: of each key only the first array counts. Lists that do not
/// fit each other are for the store to refuse. Needs no GIL.
void refuse_infinite(std::string_view method, int rank, std::span<const Key> keys,
                     std::span<const Values> values, bool first_alone);

}  // namespace tutti::python
