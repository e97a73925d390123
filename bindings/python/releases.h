#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

namespace tutti::python {

namespace nb = nanobind;

/// An array whose memory a call borrows.
using Borrowed = nb::ndarray<nb::ro>;

/// The arrays of one call. The library drops the last reference on any thread, perhaps while it
/// holds a lock, so it must not wait for the GIL there. The arrays then go on a list (this is a
/// `QuickDeleter`), and the next thread that has the GIL drops them.
struct HeldArrays {
  std::vector<nb::object> objects;  ///< objects that own their memory themselves
  std::vector<Borrowed> borrowed;
  std::shared_ptr<int>
      source;  ///< for a recv: where the store writes the rank that has sent the array
  HeldArrays* next = nullptr;  ///< the next one on that list
};

std::shared_ptr<HeldArrays> make_arrays();

/// Drops the arrays on the list. Needs the GIL.
void drop_released();

/// From here on no thread asks the interpreter to drop released arrays, because the interpreter is
/// about to end.
void stop_dropping();

}  // namespace tutti::python
