#pragma once
#include <vector>

#include "tutti/tensor.h"

namespace tutti {

/// Callers reuse arrays across keys: in one call an input of one key may lie where another key's
/// output goes. Replaces each such input by a copy of its own, so that outputs may be written in
/// any order. An output at exactly the place of an input of the same key needs none; one that is
/// shifted against it does. Both lists are by key; `ins` may hold empty values.
///
/// Costs n log n in the number of tensors.
void detach_overlapping_inputs(std::vector<Values>& ins, const std::vector<Values>& outs);

}  // namespace tutti
