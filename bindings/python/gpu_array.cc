#include "python/gpu_array.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "python/arrays.h"
#include "python/gil.h"
#include "tutti/copy.h"

namespace tutti::python {
namespace {

nb::tuple shape_of(const GpuArray& array) {
  nb::list shape;
  for (const std::int64_t dim : array.tensor.shape().dims()) shape.append(dim);
  return nb::tuple(shape);
}

std::string_view dtype_name_of(const GpuArray& array) {
  return numpy_name(array.tensor.dtype());
}

/// This is version 3 of the interface. It has no type for bfloat16, which is shown as its 16 bits.
nb::dict cuda_interface_of(const GpuArray& array) {
  const DType dtype = array.tensor.dtype();
  const std::string_view name = dtype == DType::bf16 ? "uint16" : numpy_name(dtype);
  nb::dict interface;
  interface["shape"] = shape_of(array);
  interface["typestr"] = "<" + std::string(name.substr(0, 1)) + std::to_string(size_of(dtype));
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.tensor.data()), false);
  interface["strides"] = nb::none();
  interface["version"] = 3;
  return interface;
}

void copy_without_gil(const Tensor& from, const Tensor& to) {
  const WithoutGil unlocked;
  copy(from, to);
}

void copy_from(const GpuArray& array, nb::handle other) {
  const std::shared_ptr<HeldArrays> arrays = make_arrays();
  copy_without_gil(to_tensor(other, Access::read, Elements::added, 0, arrays), array.tensor);
}

void copy_to(const GpuArray& array, nb::handle other) {
  const std::shared_ptr<HeldArrays> arrays = make_arrays();
  copy_without_gil(array.tensor, to_tensor(other, Access::write, Elements::added, 0, arrays));
}

constexpr const char* doc = R"(An array on a GPU, from KVStore.allocate.

Stores take it as it is. torch.as_tensor, cupy.asarray and other libraries with CUDA's array
interface see the same memory, which lives as long as one of them.)";

}  // namespace

Tensor on_host(const Tensor& tensor) {
  if (tensor.device().kind == Device::Kind::cpu) return tensor;
  const std::shared_ptr<std::byte[]> memory(new std::byte[tensor.bytes()]);
  Tensor host(std::shared_ptr<void>(memory, memory.get()), tensor.shape(), tensor.dtype());
  copy(tensor, host);
  return host;
}

void bind_gpu_array(nb::module_& module) {
  nb::class_<GpuArray>(module, "GpuArray", doc)
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("dtype", &dtype_name_of, "Its name, such as \"float32\".")
      .def_prop_ro(
          "gpu", [](const GpuArray& array) { return array.tensor.device().index; },
          "As CUDA numbers those that this process sees.")
      .def_prop_ro("__cuda_array_interface__", &cuda_interface_of,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, Any]"))
      .def("copy_from", &copy_from, nb::arg("array"),
           nb::sig("def copy_from(self, array: Array) -> None"),
           "Gets the elements of an array of the same shape and dtype. Blocks until then.")
      .def("copy_to", &copy_to, nb::arg("array"),
           nb::sig("def copy_to(self, array: Array) -> None"),
           "Gives an array of the same shape and dtype these elements. Blocks until then.");
}

}  // namespace tutti::python
