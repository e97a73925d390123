#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <string_view>

#include "python/bound.h"
#include "python/callback_queue.h"
#include "python/errors.h"
#include "python/gpu_array.h"
#include "python/held_memory.h"
#include "python/info.h"
#include "python/log_lines.h"
#include "python/mxnet/dependency_engine.h"
#include "python/pending.h"
#include "python/store.h"
#include "python/views.h"
#include "tutti/error.h"
#include "tutti/version.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;

void bind_error_code(nb::module_& module) {
  nb::enum_<ErrorCode> codes(module, "ErrorCode", nb::is_arithmetic(),
                             "What kind of error it is; the numbers are those of the C++ API.");
  for (const ErrorCode code : {ErrorCode::invalid_argument, ErrorCode::unsupported,
                               ErrorCode::mismatch, ErrorCode::duplicate_key, ErrorCode::timeout,
                               ErrorCode::peer_lost, ErrorCode::aborted, ErrorCode::internal}) {
    codes.value(name(code).data(), code);
  }
}

/// Whether the module was already imported in this process. If a package is removed from
/// sys.modules and imported again, it gets a new module with the classes and functions of the first
/// one, because these exist once in a process.
bool is_again(nb::module_& module) {
  static PyObject* first = nullptr;
  if (first == nullptr) {
    first = nb::object(module).release().ptr();
    return false;
  }
  for (const auto& [name, value] : nb::borrow<nb::dict>(PyModule_GetDict(first))) {
    if (!nb::cast<std::string_view>(name).starts_with("__")) nb::setattr(module, name, value);
  }
  return true;
}

}  // namespace
}  // namespace tutti::python

NB_MODULE(_core, module) {
  using namespace tutti::python;
  if (is_again(module)) return;
  module.doc() = "tutti's library as the package uses it; the package's own names are in tutti.";
  // The interpreter may end before all objects that refer to a store do.
  nanobind::set_leak_warnings(false);
  module.def("version", &tutti::version, "The library's version, such as \"0.1.0\".");
  bind_error_code(module);
  bind_errors(module);
  bind_callback_queues(module);
  bind_log_lines(module);
  bind_gpu_array(module);
  bind_held_memory(module);
  bind_pending(module);
  bind_bound_arrays(module);
  bind_store(module);
  bind_views(module);
  bind_info(module);
  mxnet::bind_mxnet(module);
}
