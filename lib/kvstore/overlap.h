#pragma once
#include <cstddef>
#include <vector>

#include "tutti/tensor.h"

namespace tutti {

/// Callers reuse arrays across keys: in one call an input of one key may lie where another key's
/// output goes. Replaces each such input by a copy of its own, so that outputs may be written in
/// any order. An output needs none that begins exactly so many bytes behind the beginning of an
/// input of the same key as `places` says (empty: none); one that is shifted against that does. All
/// lists are by key; `ins` may hold empty values.
///
/// Costs n log n in the number of tensors.
void detach_overlapping_inputs(std::vector<Values>& ins, const std::vector<Values>& outs,
                               const std::vector<std::ptrdiff_t>& places = {});

}  // namespace tutti
