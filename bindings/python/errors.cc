#include "python/errors.h"

#include <nanobind/nanobind.h>

#include <exception>

#include "tutti/error.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;

void raise(const Error& error) {
  try {
    const nb::object classes = nb::module_::import_("tutti.errors").attr("CLASSES");
    const nb::object type = classes[nb::cast(error.code())];
    PyErr_SetString(type.ptr(), error.what());
  } catch (nb::python_error& other) {
    other.restore();
  }
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void* /*unused*/) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace tutti::python
