#include "python/arguments.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tutti/error.h"

namespace tutti::python {
namespace {

bool is_list(nb::handle value) {
  return PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0;
}

std::string text_of(nb::handle value) {
  return nb::str(value).c_str();
}

/// Converts an int of Python or numpy to one of Python. Not valid for any other object.
nb::object integer_of(nb::handle value) {
  if (PyIndex_Check(value.ptr()) == 0) return {};
  nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
  if (!integer.is_valid()) {
    // Arrays of several numbers raise this error.
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
  }
  return integer;
}

/// Returns nothing if the integer has more than 64 bits.
std::optional<std::int64_t> int64_of(nb::handle integer) {
  int is_larger = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(integer.ptr(), &is_larger);
  if (is_larger != 0) return std::nullopt;
  return value;
}

}  // namespace

Key to_key(nb::handle key) {
  if (PyUnicode_Check(key.ptr()) != 0) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    // A lone surrogate has no UTF-8. Python raises that error.
    if (text == nullptr) throw nb::python_error();
    return std::string(text, static_cast<std::size_t>(size));
  }
  const nb::object integer = integer_of(key);
  if (!integer.is_valid()) {
    refuse_type("a key is an int or a str; several are a list of these", key);
  }
  const std::optional<std::int64_t> value = int64_of(integer);
  if (value) return *value;
  throw Error(ErrorCode::invalid_argument,
              "key " + text_of(key) +
                  " is out of range: an int that is a key has at most 64 bits; pass it as a str");
}

Arguments::Arguments(nb::handle keys) : is_list_(is_list(keys)), arrays_(make_arrays()) {
  if (!is_list_) {
    keys_.push_back(to_key(keys));
    return;
  }
  keys_.reserve(nb::len(keys));
  for (const nb::handle key : keys) keys_.push_back(to_key(key));
}

std::vector<Values> Arguments::values(nb::handle values, Access access, Elements elements) {
  std::vector<Values> result;
  if (!is_list_) {
    result.push_back(value(values, access, elements));
    return result;
  }
  if (!is_list(values)) refuse_type("a list of keys takes a list of values, one a key", values);
  result.reserve(nb::len(values));
  arrays_->objects.reserve(arrays_->objects.size() + 2 * nb::len(values));
  for (const nb::handle each : values) result.push_back(value(each, access, elements));
  return result;
}

Values Arguments::value(nb::handle value, Access access, Elements elements) {
  if (!is_list(value)) return to_tensor(value, access, elements, 0, arrays_);
  std::vector<Tensor> devices;
  devices.reserve(nb::len(value));
  for (const nb::handle array : value) {
    devices.push_back(
        to_tensor(array, access, elements, static_cast<int>(devices.size()), arrays_));
  }
  return devices;
}

int to_int(std::string_view name, nb::handle value) {
  const nb::object integer = integer_of(value);
  if (!integer.is_valid()) refuse_type(std::string(name) + " is an int", value);
  using Limits = std::numeric_limits<int>;
  const std::optional<std::int64_t> number = int64_of(integer);
  if (number && *number >= Limits::min() && *number <= Limits::max()) {
    return static_cast<int>(*number);
  }
  throw Error(ErrorCode::invalid_argument,
              std::string(name) + " is " + text_of(value) + ", which is out of range: from " +
                  std::to_string(Limits::min()) + " to " + std::to_string(Limits::max()));
}

ReduceOp to_reduce_op(nb::handle wanted) {
  if (PyUnicode_Check(wanted.ptr()) == 0) refuse_type("op is a str", wanted);
  const std::string text = text_of(wanted);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max}) {
    if (name(op) == text) return op;
  }
  throw Error(ErrorCode::invalid_argument,
              "op is 'sum', 'average', 'min' or 'max', not '" + text + "'");
}

}  // namespace tutti::python
