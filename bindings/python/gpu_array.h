#pragma once
#include <nanobind/nanobind.h>

#include "tutti/tensor.h"

namespace tutti::python {

/// Memory of a GPU that `allocate` gives. Other libraries take it by CUDA's array interface.
struct GpuArray {
  Tensor tensor;
};

/// The tensor itself, or for one on a GPU a copy of its elements.
Tensor on_host(const Tensor& tensor);

void bind_gpu_array(nanobind::module_& module);

}  // namespace tutti::python
