#include "python/errors.h"

#include <nanobind/stl/string.h>

#include "tutti/error.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;

nb::object key_of(const Error& error) {
  const Key* const key = error.key();
  if (key == nullptr) return nb::none();
  return key->is_integer() ? nb::object(nb::int_(key->integer())) : nb::cast(key->string());
}

nb::object to_exception(const Error& error) {
  nb::list ranks;
  for (const int rank : error.ranks()) ranks.append(rank);
  const nb::module_ errors = nb::module_::import_("tutti.errors");
  const nb::object type = errors.attr("CLASSES")[nb::cast(error.code())];
  using namespace nb::literals;
  return type(errors.attr("in_words_of_python")(error.what()), "key"_a = key_of(error),
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
    return to_exception(ours);
  } catch (const std::exception& other) {
    return nb::borrow(PyExc_RuntimeError)(other.what());
  }
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void* /*unused*/) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      try {
        raise(to_exception(error));
      } catch (nb::python_error& other) {
        other.restore();
      }
    }
  });
}

}  // namespace tutti::python
