#pragma once
#include <nanobind/nanobind.h>

#include "tutti/tensor.h"

namespace tutti::python {

/// Memory of a GPU that `allocate` returns. Other libraries take it through CUDA's array interface.
struct GpuArray {
  Tensor tensor;
};

/// The tensor itself. For a tensor on a GPU, a copy of its elements.
Tensor on_host(const Tensor& tensor);

void bind_gpu_array(nanobind::module_& module);

}  // namespace tutti::python
