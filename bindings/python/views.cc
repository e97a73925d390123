#include "python/views.h"

#include <nanobind/stl/string_view.h>

#include <memory>

#include "python/arrays.h"
#include "python/gil.h"
#include "python/gpu_array.h"
#include "tutti/tensor.h"

namespace tutti::python {
namespace {

/// A copy from a GPU may take a while.
Tensor on_host_without_gil(const Tensor& tensor) {
  const WithoutGil unlocked;
  return on_host(tensor);
}

/// Returns (the array's memory as uint8, the name of its dtype, its shape).
nb::tuple bytes_of(nb::handle array) {
  const std::shared_ptr<HeldArrays> arrays = make_arrays();
  const Tensor tensor =
      on_host_without_gil(to_tensor(array, Access::read, Elements::added, 0, arrays));
  nb::list shape;
  for (const std::int64_t dim : tensor.shape().dims()) shape.append(dim);
  return nb::make_tuple(to_numpy(tensor), numpy_name(tensor.dtype()), nb::tuple(shape));
}

}  // namespace

void bind_views(nb::module_& module) {
  module.def("bytes_of", &bytes_of, nb::arg("array").none(),
             nb::sig("def bytes_of(array: Array) -> tuple[Array, str, tuple[int, ...]]"),
             "The array's memory as uint8, in place; the name of its dtype; its shape.");
}

}  // namespace tutti::python
