#pragma once
#include "tutti/tensor.h"

namespace tutti::base {

/// Returns a tensor with memory of its own, aligned to a cache line. Its contents are arbitrary.
/// Throws `internal` if there is no memory.
Tensor own_tensor(const Shape& shape, DType dtype);

}  // namespace tutti::base
