#pragma once
#include "tutti/export.h"
#include "tutti/tensor.h"

namespace tutti {

/// Copies all elements to a tensor of the same dtype and shape, between any of the CPU and one GPU.
/// Comes after the work in the tensors' streams, and blocks until it is done. Throws
/// `invalid_argument` for tensors that differ, `unsupported` for two GPUs or without CUDA.
TUTTI_EXPORT void copy(const Tensor& from, const Tensor& to);

}  // namespace tutti
