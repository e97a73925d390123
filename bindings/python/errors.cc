#include "python/errors.h"

#include <nanobind/stl/string.h>

#include <utility>

#include "tutti/error.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;

nb::object key_of(const Error& error) {
  const Key* const key = error.key();
  if (key == nullptr) return nb::none();
  return key->is_integer() ? nb::object(nb::int_(key->integer())) : nb::cast(key->string());
}

/// The means to raise errors: the package's exception classes by their codes, and its function that
/// words texts. They are kept, because nothing can be imported at the end of the interpreter.
PyObject* package = nullptr;

nb::object package_exception(const Error& error) {
  nb::list ranks;
  for (const int rank : error.ranks()) ranks.append(rank);
  const nb::dict words = nb::borrow<nb::dict>(package);
  const nb::object type = words["classes"][nb::cast(error.code())];
  using namespace nb::literals;
  return type(words["in_words_of_python"](error.what()), "key"_a = key_of(error),
              "ranks"_a = ranks);
}

void raise(const nb::object& exception) {
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
}

}  // namespace

nb::object to_exception(const std::exception_ptr& error) {
  if (error == nullptr) return nb::none();
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return package_exception(ours);
  } catch (const std::exception& other) {
    return nb::borrow(PyExc_RuntimeError)(other.what());
  }
}

void bind_errors(nb::module_& module) {
  module.def(
      "raise_these",
      [](const nb::dict& classes, const nb::callable& in_words_of_python) {
        nb::dict words;
        words["classes"] = classes;
        words["in_words_of_python"] = in_words_of_python;
        Py_XDECREF(std::exchange(package, words.release().ptr()));
      },
      nb::arg("classes"), nb::arg("in_words_of_python"),
      "The classes of errors, by their codes, and what makes Python's words of the library's.");
  nb::register_exception_translator([](const std::exception_ptr& thrown, void* /*unused*/) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      try {
        raise(package_exception(error));
      } catch (nb::python_error& other) {
        other.restore();
      }
    }
  });
}

}  // namespace tutti::python
