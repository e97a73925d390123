#pragma once
#include <nanobind/nanobind.h>

#include <exception>

namespace tutti::python {

/// The function by which the package passes in its exception classes.
void bind_errors(nanobind::module_& module);

/// From now on, if a `tutti::Error` leaves a function, Python raises the result of `to_exception`.
void translate_errors();

/// The exception that Python raises for this one. For a `tutti::Error` it is of the class of
/// `tutti.errors` for the error's code, with key and ranks. Returns None for null. Needs the GIL.
nanobind::object to_exception(const std::exception_ptr& error);

}  // namespace tutti::python
