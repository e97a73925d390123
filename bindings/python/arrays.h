#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "python/releases.h"
#include "tutti/tensor.h"

namespace tutti::python {

/// Whether a call only reads an array, or also writes it.
enum class Access { read, write };
/// Whether a call adds elements, or only moves them. Elements that are only moved may have any
/// dtype.
enum class Elements { added, moved };

/// The array in place, as a tensor that keeps `arrays` and, through it, the array's memory. Needs
/// the GIL. Throws TypeError for an object that is no array, and InvalidArgumentError for an array
/// that cannot be used in place. The text says what to do.
Tensor to_tensor(nb::handle array, Access access, Elements elements, int device,
                 const std::shared_ptr<HeldArrays>& arrays);

/// A numpy array of the tensor's bytes, which owns its memory.
nb::object to_numpy(const Tensor& tensor);

/// The dtype for DLPack's type. Returns nothing if tutti has no such type. If elements are only
/// moved, any type with a size of DType::b8 to b128 will do.
std::optional<DType> dtype_of(nb::dlpack::dtype type, Elements elements = Elements::added);
/// The dtype of elements of this many bytes that are only moved. Nothing for another size.
std::optional<DType> bits_of(std::size_t bytes);
/// The name that numpy uses: "float32". For "bfloat16" it is the name that other packages add to
/// numpy.
std::string_view numpy_name(DType dtype);
/// The dtype that numpy calls `numpy_name`. Throws `invalid_argument` for a type that tutti does
/// not have.
DType dtype_named(std::string_view numpy_name);

/// Raises TypeError. The type of the object follows the text: "expected ..., not float".
[[noreturn]] void refuse_type(std::string_view text, nb::handle value);

}  // namespace tutti::python
