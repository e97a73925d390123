#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "tutti/key.h"
#include "tutti/tensor.h"

namespace tutti::python {

/// Throws `invalid_argument` for the first NaN or infinity of these arrays, in the order of the
/// keys. The error names key, rank, place and value. With `first_alone`, only the first array of
/// each key counts. If the lists do not fit each other, the store refuses them later. Needs no GIL.
void refuse_infinite(std::string_view method, int rank, std::span<const Key> keys,
                     std::span<const Values> values, bool first_alone);

}  // namespace tutti::python
