#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// Describes the library for the package's commands.
void bind_info(nanobind::module_& module);

}  // namespace tutti::python
