#pragma once
#include "tutti/export.h"
#include "tutti/tensor.h"

namespace tutti {

/// Copies all elements to a tensor of the same dtype and shape, between any of the CPU and one GPU.
/// Comes after the work in the tensors' streams, and blocks until it is done. Throws
/// `invalid_argument` for tensors that differ and while the program captures one of the streams as
/// a graph, `unsupported` for two GPUs or without CUDA. Throws `timeout` when a GPU takes longer
/// than the default of Options::key_timeout; the tensors' memory, where they own it, is then never
/// freed, for the GPU may still use it.
TUTTI_EXPORT void copy(const Tensor& from, const Tensor& to);

}  // namespace tutti
