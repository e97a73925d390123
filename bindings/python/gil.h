#pragma once
#include <nanobind/nanobind.h>

namespace tutti::python {

/// Gives up the GIL for a scope, so that other Python threads run while the library works.
///
/// Once the interpreter ends, Python would end a thread that takes the GIL back: it would unwind
/// the thread's stack, and nanobind's frames do not survive that. Here such a thread sleeps
/// instead, until the process ends.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

/// From now on only this thread takes the GIL back. Needs the GIL. Gives it up until all threads
/// that are about to take it have done so.
void keep_gil_until_the_end();

}  // namespace tutti::python
