#include "python/arrays.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/error.h"

namespace tutti::python {
namespace {

using Readable = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Writable = nb::ndarray<nb::c_contig, nb::device::cpu>;

struct ElementType {
  DType ours;
  nb::dlpack::dtype_code code;
  std::string_view numpy_name;

  nb::dlpack::dtype theirs() const {
    return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(ours)), 1};
  }
};

constexpr std::array<ElementType, 8> element_types{{
    {DType::f32, nb::dlpack::dtype_code::Float, "float32"},
    {DType::f16, nb::dlpack::dtype_code::Float, "float16"},
    {DType::bf16, nb::dlpack::dtype_code::Bfloat, "bfloat16"},
    {DType::f64, nb::dlpack::dtype_code::Float, "float64"},
    {DType::i8, nb::dlpack::dtype_code::Int, "int8"},
    {DType::u8, nb::dlpack::dtype_code::UInt, "uint8"},
    {DType::i32, nb::dlpack::dtype_code::Int, "int32"},
    {DType::i64, nb::dlpack::dtype_code::Int, "int64"},
}};

/// Python looks for the reason: it knows all kinds of arrays.
[[noreturn]] void refuse(nb::handle array, Access access) {
  const nb::object why =
      nb::module_::import_("tutti._arrays").attr("why_refused")(array, access == Access::write);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(why.ptr())), why.ptr());
  throw nb::python_error();
}

bool is_numpy(nb::handle array) {
  static const PyObject* const type =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return array.type().ptr() == type;
}

/// What not every DLPack says, and nanobind goes around where it does: an array of jax never
/// changes, and autograd must know what happens to a torch tensor that requires grad.
bool is_out_of_bounds(nb::handle array, Access access) {
  if (is_numpy(array)) return false;
  const nb::object grad = nb::getattr(array, "requires_grad", nb::none());
  if (grad.ptr() == Py_True) return true;
  if (access == Access::read) return false;
  const nb::object module = nb::getattr(array.type(), "__module__", nb::none());
  return nb::isinstance<nb::str>(module) &&
         std::string_view(nb::borrow<nb::str>(module).c_str()).starts_with("jax");
}

template <typename Array>
Borrowed borrow(nb::handle array, Access access) {
  Array imported;
  if (is_out_of_bounds(array, access) || !nb::try_cast(array, imported, false))
    refuse(array, access);
  return Borrowed(imported);
}

DType dtype_of(const Borrowed& borrowed, nb::handle array, Access access) {
  for (const ElementType& type : element_types) {
    if (type.theirs() == borrowed.dtype()) return type.ours;
  }
  refuse(array, access);
}

/// numpy has this type from others alone (ml_dtypes, which jax brings), and lends it to nobody.
bool is_bfloat16_of_numpy(nb::handle array) {
  if (!is_numpy(array)) return false;
  const nb::object dtype = array.attr("dtype");
  const auto says = [&](const char* what, std::string_view text) {
    return nb::str(dtype.attr(what)).c_str() == text;
  };
  return says("kind", "V") && says("name", "bfloat16");
}

Shape shape_of(const Borrowed& array) {
  if (array.ndim() > Shape::max_rank) {
    throw Error(ErrorCode::invalid_argument,
                "an array of " + std::to_string(array.ndim()) + " dimensions; at most " +
                    std::to_string(Shape::max_rank) + " are possible, see numpy.reshape");
  }
  std::array<std::int64_t, Shape::max_rank> dims{};
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    dims[i] = static_cast<std::int64_t>(array.shape(i));
  }
  return Shape(std::span<const std::int64_t>(dims.data(), array.ndim()));
}

}  // namespace

Tensor to_tensor(nb::handle array, Access access, int device,
                 const std::shared_ptr<Arrays>& arrays) {
  if (is_bfloat16_of_numpy(array)) {
    // As another type of 16 bits, of which only the memory counts.
    const Tensor bits = to_tensor(array.attr("view")("float16"), access, device, arrays);
    return Tensor(std::shared_ptr<void>(arrays, bits.data()), bits.shape(), DType::bf16,
                  bits.device());
  }
  Borrowed borrowed =
      access == Access::write ? borrow<Writable>(array, access) : borrow<Readable>(array, access);
  const DType dtype = dtype_of(borrowed, array, access);
  // The library has one type for what it reads and what it writes.
  void* const data = const_cast<void*>(borrowed.data());
  Tensor tensor(std::shared_ptr<void>(arrays, data), shape_of(borrowed), dtype,
                {Device::Kind::cpu, device});
  arrays->arrays.push_back(std::move(borrowed));
  return tensor;
}

nb::object to_numpy(const Tensor& tensor) {
  const auto type = std::find_if(element_types.begin(), element_types.end(),
                                 [&](const ElementType& t) { return t.ours == tensor.dtype(); });
  std::vector<std::size_t> shape;
  for (const std::int64_t dim : tensor.shape().dims()) {
    shape.push_back(static_cast<std::size_t>(dim));
  }
  const nb::capsule owner(new Tensor(tensor),
                          [](void* memory) noexcept { delete static_cast<Tensor*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy>(tensor.data(), shape.size(), shape.data(), owner, nullptr,
                                         type->theirs(), nb::device::cpu::value, 0));
}

std::string_view numpy_name(DType dtype) {
  return std::find_if(element_types.begin(), element_types.end(),
                      [&](const ElementType& type) { return type.ours == dtype; })
      ->numpy_name;
}

DType dtype_named(std::string_view numpy_name) {
  std::string all;
  for (const ElementType& type : element_types) {
    if (type.numpy_name == numpy_name) return type.ours;
    all += (all.empty() ? "" : ", ") + std::string(type.numpy_name);
  }
  throw Error(ErrorCode::invalid_argument,
              "no tensors of " + std::string(numpy_name) + "; the types are " + all);
}

void refuse_type(std::string_view text, nb::handle value) {
  const nb::str name(value.type().attr("__name__"));
  throw nb::type_error((std::string(text) + ", not " + name.c_str()).c_str());
}

}  // namespace tutti::python
