#include "python/arrays.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/gpu_array.h"
#include "python/held_memory.h"
#include "tutti/error.h"

namespace tutti::python {
namespace {

using Readable = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Writable = nb::ndarray<nb::c_contig, nb::device::cpu>;

struct ElementType {
  DType ours;
  nb::dlpack::dtype_code code;
  char numpy_kind;
  std::string_view numpy_name;

  nb::dlpack::dtype theirs() const {
    return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size_of(ours)), 1};
  }
};

/// numpy itself has no bfloat16. Other packages add it (ml_dtypes, which jax brings), and its kind
/// is 'V'.
constexpr std::array<ElementType, 8> element_types{{
    {DType::f32, nb::dlpack::dtype_code::Float, 'f', "float32"},
    {DType::f16, nb::dlpack::dtype_code::Float, 'f', "float16"},
    {DType::bf16, nb::dlpack::dtype_code::Bfloat, 'V', "bfloat16"},
    {DType::f64, nb::dlpack::dtype_code::Float, 'f', "float64"},
    {DType::i8, nb::dlpack::dtype_code::Int, 'i', "int8"},
    {DType::u8, nb::dlpack::dtype_code::UInt, 'u', "uint8"},
    {DType::i32, nb::dlpack::dtype_code::Int, 'i', "int32"},
    {DType::i64, nb::dlpack::dtype_code::Int, 'i', "int64"},
}};

/// The description of an array that numpy gives to C: PyArrayInterface of its array interface
/// protocol. numpy's DLPack takes several times as long.
struct ArrayInterface {
  int two;
  int dimensions;
  char kind;
  int item_bytes;
  int flags;
  const Py_ssize_t* shape;
  const Py_ssize_t* strides;
  void* data;
  PyObject* fields;

  static constexpr int c_contiguous = 0x1;
  static constexpr int native = 0x200;
  static constexpr int writable = 0x400;
};

/// The Python module finds the reason, because it knows all kinds of arrays.
[[noreturn]] void refuse(nb::handle array, Access access, Elements elements) {
  const nb::object why =
      nb::module_::import_("tutti._arrays")
          .attr("why_refused")(array, access == Access::write, elements == Elements::moved);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(why.ptr())), why.ptr());
  throw nb::python_error();
}

PyTypeObject* numpy_array() {
  static PyObject* const type =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return reinterpret_cast<PyTypeObject*>(type);
}

bool is_numpy(nb::handle array) {
  return Py_TYPE(array.ptr()) == numpy_array();
}

bool is_of_numpys_subclass(nb::handle array) {
  return PyObject_TypeCheck(array.ptr(), numpy_array()) != 0;
}

/// The capsule around an `ArrayInterface`.
nb::object interface_of(nb::handle array) {
  static PyObject* const name = PyUnicode_InternFromString("__array_struct__");
  nb::object capsule = nb::steal(PyObject_GetAttr(array.ptr(), name));
  if (!capsule.is_valid()) throw nb::python_error();
  return capsule;
}

/// Whether this is one of numpy's masked arrays. These have values even where the mask says that
/// there are none.
bool is_masked(nb::handle array) {
  return is_of_numpys_subclass(array) && nb::hasattr(array, "mask");
}

/// Whether this is a tensor of torch that stands for the negatives of the numbers in its memory.
bool is_negated(nb::handle array) {
  static PyObject* const is_neg = PyUnicode_InternFromString("is_neg");
  const nb::object answer = nb::steal(PyObject_CallMethodNoArgs(array.ptr(), is_neg));
  if (answer.is_valid()) return answer.ptr() == Py_True;
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error();
  PyErr_Clear();  // the array belongs to another library
  return false;
}

/// Whether the array must not be used, although its DLPack does not say so, or says so in a way
/// that nanobind avoids. An array of jax never changes. Autograd must know what happens to a torch
/// tensor that requires grad.
bool is_out_of_bounds(nb::handle array, Access access) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  static PyObject* const module_name = PyUnicode_InternFromString("__module__");
  if (is_masked(array)) return true;
  const nb::object grad = nb::getattr(array, nb::handle(requires_grad), nb::none());
  if (grad.ptr() == Py_True) return true;
  if (grad.ptr() == Py_False && is_negated(array)) return true;
  if (access == Access::read) return false;
  const nb::object module = nb::getattr(array.type(), nb::handle(module_name), nb::none());
  return nb::isinstance<nb::str>(module) &&
         std::string_view(nb::borrow<nb::str>(module).c_str()).starts_with("jax");
}

template <typename Array>
std::optional<Borrowed> imported(nb::handle array) {
  Array found;
  if (!nb::try_cast(array, found, false)) return std::nullopt;
  return Borrowed(found);
}

template <typename Dim>
Shape to_shape(const Dim* dims, std::size_t count) {
  if (count > Shape::max_rank) {
    throw Error(ErrorCode::invalid_argument, "an array has " + std::to_string(count) +
                                                 " dimensions, but may have at most " +
                                                 std::to_string(Shape::max_rank) +
                                                 "; reshape it, for example with numpy.reshape");
  }
  std::array<std::int64_t, Shape::max_rank> copied{};
  std::copy_n(dims, count, copied.begin());
  return Shape(std::span<const std::int64_t>(copied.data(), count));
}

/// Whether an array of numpy's kind may be moved as plain elements: no text, objects or structures.
bool is_plain(nb::handle array, char kind) {
  if (kind != 'V') return std::string_view("biufcmM").find(kind) != std::string_view::npos;
  const nb::object type = array.attr("dtype").attr("type");
  return !type.is(nb::module_::import_("numpy").attr("void"));
}

std::optional<DType> dtype_of(nb::handle array, const ArrayInterface& found, Elements elements) {
  const auto* const type =
      std::find_if(element_types.begin(), element_types.end(), [&](const ElementType& each) {
        return each.numpy_kind == found.kind &&
               size_of(each.ours) == static_cast<std::size_t>(found.item_bytes);
      });
  // The kind 'V' also stands for structures.
  const bool is_right = type == element_types.end() || type->ours != DType::bf16 ||
                        nb::str(array.attr("dtype").attr("name")).c_str() == type->numpy_name;
  if (is_right && type != element_types.end()) return type->ours;
  const bool may_move = elements == Elements::moved && is_plain(array, found.kind);
  return may_move ? bits_of(static_cast<std::size_t>(found.item_bytes)) : std::nullopt;
}

/// Whether the array can be used in place.
bool is_usable(const ArrayInterface& found, Access access) {
  const int needed = ArrayInterface::c_contiguous | ArrayInterface::native |
                     (access == Access::write ? ArrayInterface::writable : 0);
  return (found.flags & needed) == needed;
}

/// Returns nothing if the store takes no such array.
std::optional<Tensor> taken_from_numpy(nb::handle array, Access access, Elements elements,
                                       Device device, const std::shared_ptr<HeldArrays>& arrays) {
  const nb::object capsule = interface_of(array);
  // A subclass may return anything.
  void* const interface = PyCapsule_GetPointer(capsule.ptr(), nullptr);
  if (interface == nullptr) throw nb::python_error();
  const auto& found = *static_cast<ArrayInterface*>(interface);
  const std::optional<DType> dtype = dtype_of(array, found, elements);
  if (!dtype || !is_usable(found, access)) return std::nullopt;
  Tensor tensor(std::shared_ptr<void>(arrays, found.data),
                to_shape(found.shape, static_cast<std::size_t>(found.dimensions)), *dtype, device);
  // numpy does not free the memory as long as somebody refers to the array. Python's garbage
  // collector sees this reference, which it would not in a capsule of DLPack. As long as there is a
  // weak reference, numpy does not resize the memory, not even with refcheck=False.
  arrays->objects.push_back(nb::borrow(array));
  arrays->objects.push_back(nb::steal(PyWeakref_NewRef(array.ptr(), nullptr)));
  return tensor;
}

Tensor from_numpy(nb::handle array, Access access, Elements elements, Device device,
                  const std::shared_ptr<HeldArrays>& arrays) {
  const auto tensor = taken_from_numpy(array, access, elements, device, arrays);
  if (!tensor) refuse(array, access, elements);
  return *tensor;
}

/// Whether this is a tensor of torch. The question does not import torch.
bool is_torch(nb::handle array) {
  static PyObject* const name = PyUnicode_InternFromString("torch");
  const nb::object torch = nb::steal(PyImport_GetModule(name));
  return torch.is_valid() && nb::isinstance(array, torch.attr("Tensor"));
}

/// Keeps torch from giving the tensor other memory and freeing this one. A capsule of DLPack does
/// not prevent that.
void pin(nb::handle array, HeldArrays& arrays) {
  arrays.objects.push_back(nb::module_::import_("tutti._arrays").attr("pinned")(array));
}

/// The memory of a torch tensor whose dtype torch puts into no capsule.
Tensor from_torchs_memory(nb::handle array, Access access, Device device,
                          const std::shared_ptr<HeldArrays>& arrays) {
  const nb::object found =
      nb::module_::import_("tutti._arrays").attr("memory_of")(array, access == Access::write);
  const auto [address, shape, bytes] =
      nb::cast<std::tuple<std::uintptr_t, std::vector<std::int64_t>, std::size_t>>(found);
  const std::optional<DType> dtype = bits_of(bytes);
  if (!dtype) refuse(array, access, Elements::moved);
  void* const data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  Tensor tensor(std::shared_ptr<void>(arrays, data), to_shape(shape.data(), shape.size()), *dtype,
                device);
  pin(array, *arrays);
  return tensor;
}

/// Returns the result of a method without arguments, or nothing if the method raises.
nb::object tried(nb::handle object, PyObject* method) {
  nb::object result = nb::steal(PyObject_CallMethodNoArgs(object.ptr(), method));
  if (!result.is_valid()) PyErr_Clear();
  return result;
}

/// Takes a torch tensor on the CPU by way of numpy, which is faster than DLPack. Returns nothing if
/// torch gives numpy no such tensor, or if the store takes no such array. Then DLPack follows: it
/// has all dtypes, and it says why it refuses a tensor.
std::optional<Tensor> from_torch(nb::handle array, Access access, Elements elements, Device device,
                                 const std::shared_ptr<HeldArrays>& arrays) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  static PyObject* const detach = PyUnicode_InternFromString("detach");
  static PyObject* const numpy = PyUnicode_InternFromString("numpy");
  if (nb::getattr(array, nb::handle(requires_grad), nb::none()).ptr() == Py_True) {
    return std::nullopt;
  }
  // The detached tensor keeps its memory even if `set_` gives the original another one. And torch
  // does not resize memory that numpy has seen.
  const nb::object detached = tried(array, detach);
  if (!detached.is_valid()) return std::nullopt;
  const nb::object view = tried(detached, numpy);
  if (!view.is_valid() || !is_numpy(view)) return std::nullopt;
  return taken_from_numpy(view, access, elements, device, arrays);
}

/// Whether this is a complex tensor of torch that stands for the conjugates of the numbers in its
/// memory.
bool is_conjugated(nb::handle array, nb::dlpack::dtype type) {
  const bool is_complex = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex);
  return is_complex && is_torch(array) && nb::cast<bool>(nb::object(array.attr("is_conj")()));
}

Tensor from_dlpack(nb::handle array, Access access, Elements elements, Device device,
                   const std::shared_ptr<HeldArrays>& arrays) {
  if (is_out_of_bounds(array, access)) refuse(array, access, elements);
  std::optional<Borrowed> borrowed =
      access == Access::write ? imported<Writable>(array) : imported<Readable>(array);
  if (!borrowed && elements == Elements::moved && is_torch(array)) {
    return from_torchs_memory(array, access, device, arrays);
  }
  const std::optional<DType> dtype =
      borrowed ? dtype_of(borrowed->dtype(), elements) : std::nullopt;
  if (!dtype || is_conjugated(array, borrowed->dtype())) refuse(array, access, elements);
  // The library has one type for tensors that it reads and tensors that it writes.
  void* const data = const_cast<void*>(borrowed->data());
  Tensor tensor(std::shared_ptr<void>(arrays, data),
                to_shape(borrowed->shape_ptr(), borrowed->ndim()), *dtype, device);
  arrays->borrowed.push_back(std::move(*borrowed));
  if (is_torch(array)) pin(array, *arrays);
  return tensor;
}

/// Whether the array is on a GPU. Memory that CUDA moves between GPU and CPU counts, too.
bool is_on_gpu(nb::handle array) {
  static PyObject* const is_cuda = PyUnicode_InternFromString("is_cuda");
  static PyObject* const device = PyUnicode_InternFromString("__dlpack_device__");
  const nb::object torchs = nb::getattr(array, nb::handle(is_cuda), nb::none());
  if (nb::isinstance<nb::bool_>(torchs)) return nb::cast<bool>(torchs);
  if (PyType_Check(array.ptr()) != 0) return false;
  if (!nb::hasattr(array, nb::handle(device))) {
    return nb::hasattr(array, "__cuda_array_interface__");
  }
  const int kind = nb::cast<int>(nb::object(array.attr("__dlpack_device__")())[0]);
  return kind == nb::device::cuda::value || kind == nb::device::cuda_managed::value;
}

Tensor from_capsule(nb::handle array, nb::handle capsule, Access access, Elements elements,
                    Device device, const std::shared_ptr<HeldArrays>& arrays) {
  nb::ndarray<nb::c_contig> imported;
  if (!nb::try_cast(capsule, imported, false)) refuse(array, access, elements);
  const std::optional<DType> dtype = dtype_of(imported.dtype(), elements);
  if (!dtype) refuse(array, access, elements);
  Tensor tensor(std::shared_ptr<void>(arrays, imported.data()),
                to_shape(imported.shape_ptr(), imported.ndim()), *dtype, device);
  arrays->borrowed.emplace_back(imported);
  return tensor;
}

Tensor from_interface(nb::handle interface, Device device,
                      const std::shared_ptr<HeldArrays>& arrays) {
  const auto [address, shape, dtype] =
      nb::cast<std::tuple<std::uintptr_t, std::vector<std::int64_t>, std::string>>(interface);
  void* const data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return {std::shared_ptr<void>(arrays, data), to_shape(shape.data(), shape.size()),
          dtype_named(dtype), device};
}

/// Does not wait for the array's library: the store's work comes after that library's work in its
/// stream.
Tensor from_gpu(nb::handle array, Access access, Elements elements,
                const std::shared_ptr<HeldArrays>& arrays) {
  if (is_out_of_bounds(array, access)) refuse(array, access, elements);
  const nb::module_ gpu = nb::module_::import_("tutti._gpu");
  const auto [index, stream] =
      nb::cast<std::pair<int, std::uintptr_t>>(nb::object(gpu.attr("place")(array)));
  const Device device{Device::Kind::gpu, index};
  const nb::object capsule = gpu.attr("capsule")(array);
  const Tensor tensor =
      capsule.is_none()
          ? from_interface(nb::object(gpu.attr("interface")(array, access == Access::write)),
                           device, arrays)
          : from_capsule(array, capsule, access, elements, device, arrays);
  arrays->objects.push_back(nb::borrow(array));
  return tensor.on(reinterpret_cast<CUstream_st*>(stream));  // NOLINT(performance-no-int-to-ptr)
}

Tensor from_memory(const HeldMemory& memory, Access access, Elements elements, Device device,
                   const std::shared_ptr<HeldArrays>& arrays) {
  const auto tensor = from_held(memory, elements, device, arrays);
  if (!tensor) refuse(memory.owner, access, elements);
  return *tensor;
}

}  // namespace

Tensor to_tensor(nb::handle array, Access access, Elements elements, int device,
                 const std::shared_ptr<HeldArrays>& arrays) {
  const Device cpu{Device::Kind::cpu, device};
  if (is_numpy(array) || (is_of_numpys_subclass(array) && !is_masked(array))) {
    return from_numpy(array, access, elements, cpu, arrays);
  }
  if (nb::isinstance<HeldMemory>(array)) {
    return from_memory(nb::cast<const HeldMemory&>(array), access, elements, cpu, arrays);
  }
  if (nb::isinstance<GpuArray>(array)) return nb::cast<const GpuArray&>(array).tensor;
  if (is_on_gpu(array)) return from_gpu(array, access, elements, arrays);
  if (is_torch(array)) {
    if (auto tensor = from_torch(array, access, elements, cpu, arrays)) return *tensor;
  }
  return from_dlpack(array, access, elements, cpu, arrays);
}

nb::object to_numpy(const Tensor& tensor) {
  const auto size = static_cast<std::size_t>(tensor.bytes());
  const nb::capsule owner(new Tensor(tensor),
                          [](void* memory) noexcept { delete static_cast<Tensor*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(tensor.data(), {size}, owner));
}

std::optional<DType> bits_of(std::size_t bytes) {
  for (const DType dtype : {DType::b8, DType::b16, DType::b32, DType::b64, DType::b128}) {
    if (size_of(dtype) == bytes) return dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_of(nb::dlpack::dtype type, Elements elements) {
  for (const ElementType& each : element_types) {
    if (each.theirs() == type) return each.ours;
  }
  const bool is_whole = type.lanes == 1 && type.bits % 8 == 0;
  if (elements == Elements::moved && is_whole) return bits_of(type.bits / 8U);
  return std::nullopt;
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
              "there are no arrays of " + std::string(numpy_name) + "; the dtypes are " + all);
}

void refuse_type(std::string_view text, nb::handle value) {
  const nb::str name(value.type().attr("__name__"));
  throw nb::type_error((std::string(text) + ", not " + name.c_str()).c_str());
}

}  // namespace tutti::python
