#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// What the package's commands say of the library.
void bind_info(nanobind::module_& module);

}  // namespace tutti::python
