#pragma once
#include <nanobind/nanobind.h>

#include "tutti/options.h"

namespace tutti::python {

/// The environment's options, with those of `chosen` instead: the fields' names and values, times
/// in seconds. Throws TypeError for another name or a value of another type.
Options to_options(const nanobind::dict& chosen);

}  // namespace tutti::python
