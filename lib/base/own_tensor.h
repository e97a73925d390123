#pragma once
#include "tutti/tensor.h"

namespace tutti::base {

/// A tensor in memory of its own, aligned to a cache line, with any contents. Throws `internal`
/// when there is no memory.
Tensor own_tensor(const Shape& shape, DType dtype);

}  // namespace tutti::base
