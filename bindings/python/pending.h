#pragma once
#include <nanobind/nanobind.h>

#include "tutti/bound.h"
#include "tutti/pending.h"

namespace tutti::python {

/// Blocks until the call is done, like Pending.wait of Python. Returns false if the time has passed
/// first. `timeout` is a number of seconds, or None.
bool wait(const Pending& pending, nanobind::handle timeout);
/// The same, for the last call of a binding.
bool wait(const Bound& bound, nanobind::handle timeout);
/// The class Pending.
void bind_pending(nanobind::module_& module);

}  // namespace tutti::python
