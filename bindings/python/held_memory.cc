#include "python/held_memory.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

namespace tutti::python {
namespace {

void make_held(HeldMemory* place, nb::object owner, std::uintptr_t address, std::int64_t count,
               const std::optional<std::string>& dtype, std::size_t element_bytes) {
  void* const data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  new (place) HeldMemory{std::move(owner), data, Shape{count},
                         dtype ? std::optional(dtype_named(*dtype)) : std::nullopt, element_bytes};
}

constexpr const char* held_memory_doc =
    R"(A row of elements in memory of the CPU that `owner` keeps alive.

The elements have a dtype by its name, or None: then calls only move them, and each has so many
bytes. Calls keep the owner until they are done.)";

}  // namespace

std::optional<Tensor> from_held(const HeldMemory& memory, Elements elements, Device device,
                                const std::shared_ptr<HeldArrays>& arrays) {
  std::optional<DType> dtype = memory.dtype;
  if (!dtype && elements == Elements::moved) dtype = bits_of(memory.element_bytes);
  if (!dtype) return std::nullopt;
  Tensor tensor(std::shared_ptr<void>(arrays, memory.data), memory.shape, *dtype, device);
  arrays->objects.push_back(memory.owner);
  return tensor;
}

void bind_held_memory(nb::module_& module) {
  nb::class_<HeldMemory>(module, "HeldMemory", held_memory_doc)
      .def("__init__", &make_held, nb::arg("owner"), nb::arg("address"), nb::arg("count"),
           nb::arg("dtype").none(), nb::arg("element_bytes"));
}

}  // namespace tutti::python
