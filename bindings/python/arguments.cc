#include "python/arguments.h"

#include <cstdint>
#include <string>

#include "tutti/error.h"

namespace tutti::python {
namespace {

bool is_list(nb::handle value) {
  return PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0;
}

Key to_key(nb::handle key) {
  if (PyUnicode_Check(key.ptr()) != 0) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    // A lone surrogate has no UTF-8, and Python says so.
    if (text == nullptr) throw nb::python_error();
    return std::string(text, static_cast<std::size_t>(size));
  }
  // Also numpy's integers.
  if (PyIndex_Check(key.ptr()) == 0) {
    refuse_type("a key is an int or a str; several are a list of these", key);
  }
  const nb::object number = nb::steal(PyNumber_Index(key.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const std::int64_t value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

}  // namespace

Arguments::Arguments(nb::handle keys) : is_list_(is_list(keys)), arrays_(make_arrays()) {
  if (!is_list_) {
    keys_.push_back(to_key(keys));
    return;
  }
  keys_.reserve(nb::len(keys));
  for (const nb::handle key : keys) keys_.push_back(to_key(key));
}

std::vector<Values> Arguments::values(nb::handle values, Access access) {
  std::vector<Values> result;
  if (!is_list_) {
    result.push_back(value(values, access));
    return result;
  }
  if (!is_list(values)) refuse_type("a list of keys takes a list of values, one a key", values);
  result.reserve(nb::len(values));
  arrays_->objects.reserve(arrays_->objects.size() + nb::len(values));
  for (const nb::handle each : values) result.push_back(value(each, access));
  return result;
}

Values Arguments::value(nb::handle value, Access access) {
  if (!is_list(value)) return to_tensor(value, access, 0, arrays_);
  std::vector<Tensor> devices;
  devices.reserve(nb::len(value));
  for (const nb::handle array : value) {
    devices.push_back(to_tensor(array, access, static_cast<int>(devices.size()), arrays_));
  }
  return devices;
}

ReduceOp reduce_op_named(std::string_view wanted) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max}) {
    if (name(op) == wanted) return op;
  }
  throw Error(ErrorCode::invalid_argument,
              "op is 'sum', 'average', 'min' or 'max', not '" + std::string(wanted) + "'");
}

}  // namespace tutti::python
