#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// Gives up the GIL for a scope, so that other Python threads run while the library works.
///
/// Once the interpreter ends, Python would end a thread that takes the GIL back by unwinding its
/// stack, which nanobind's frames do not survive. Such a thread sleeps here instead, until the
/// process is gone.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

/// From here on no thread but this one takes the GIL back. Needs the GIL, and gives it up until
/// those that are about to take it have it.
void keep_gil_until_the_end();

}  // namespace tutti::python
