#pragma once
#include <nanobind/nanobind.h>

#include "tutti/pending.h"

namespace tutti::python {

/// Blocks until the call is done, like Pending.wait of Python.
void wait_for_end(const Pending& pending);
/// The class Pending.
void bind_pending(nanobind::module_& module);

}  // namespace tutti::python
