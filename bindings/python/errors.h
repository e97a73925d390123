#pragma once
#include <nanobind/nanobind.h>

#include <exception>

namespace tutti::python {

/// The function by which the package passes in its exception classes.
void bind_errors(nanobind::module_& module);

/// From now on a `tutti::Error` that leaves a function becomes what `to_exception` makes of it.
void translate_errors();

/// The exception that Python raises for this one: of a `tutti::Error` the class of `tutti.errors`
/// for its code, with key and ranks. None for null. Needs the GIL.
nanobind::object to_exception(const std::exception_ptr& error);

}  // namespace tutti::python
