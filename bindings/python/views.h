#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// The functions by which the package's modules look into arrays that numpy does not know.
void bind_views(nanobind::module_& module);

}  // namespace tutti::python
