#pragma once
#include "tutti/export.h"
#include "tutti/tensor.h"

namespace tutti {

/// Copies all elements of `from` to `to`. Each of the two is on the CPU or on a GPU; if both are on
/// a GPU, it is the same one. The copy begins after the work in the tensors' streams. Blocks until
/// the copy is done.
///
/// Errors:
/// - `invalid_argument`: the tensors differ in dtype or shape, or the program captures one of the
///   streams as a graph.
/// - `unsupported`: the tensors are on two GPUs, or this build has no CUDA.
/// - `timeout`: the GPU takes longer than the default of Options::key_timeout (30 minutes). The GPU
///   may still use the tensors, so tutti then never frees memory that they own.
TUTTI_EXPORT void copy(const Tensor& from, const Tensor& to);

}  // namespace tutti
