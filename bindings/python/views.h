#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// How the package's modules look into arrays that numpy does not know.
void bind_views(nanobind::module_& module);

}  // namespace tutti::python
