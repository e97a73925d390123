#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "python/arrays.h"
#include "tutti/tensor.h"

namespace tutti::python {

/// Memory of the CPU that an object of Python keeps alive. The library of that object may resize
/// the memory after the call, which it does not do with memory that numpy has seen.
struct HeldMemory {
  nb::object owner;
  void* data;
  Shape shape;
  std::optional<DType> dtype;  ///< nothing: the elements can only be moved
  std::size_t element_bytes;
};

/// The memory as a tensor that keeps `arrays` and, through it, the owner. Needs the GIL. Returns
/// nothing if the store has no such elements.
std::optional<Tensor> from_held(const HeldMemory& memory, Elements elements, Device device,
                                const std::shared_ptr<HeldArrays>& arrays);

void bind_held_memory(nb::module_& module);

}  // namespace tutti::python
