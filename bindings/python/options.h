#pragma once
#include <nanobind/nanobind.h>

#include "tutti/options.h"

namespace tutti::python {

/// The options of the environment, overridden by those in `chosen`: the fields' names and values,
/// with times in seconds. Throws TypeError for another name or a value of another type.
Options to_options(const nanobind::dict& chosen);

}  // namespace tutti::python
