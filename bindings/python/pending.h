#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// The class Pending.
void bind_pending(nanobind::module_& module);

}  // namespace tutti::python
