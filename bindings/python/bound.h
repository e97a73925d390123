#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <utility>

#include "tutti/bound.h"

namespace tutti::python {

/// A bound call that Python owns. It holds the arrays. Its methods need the GIL, and give it up
/// while the library works.
class BoundArrays {
 public:
  /// `check` runs before each start, without the GIL. If it throws, nothing is submitted.
  BoundArrays(Bound bound, std::function<void()> check)
      : bound_(std::move(bound)), check_(std::move(check)) {}

  /// Submits the call, and does not block.
  Pending start() const;
  /// Waits for the last start, like Pending.wait of Python.
  bool wait(nanobind::handle timeout) const;
  /// Blocks, also for other ranks, unless a signal's handler raises an exception.
  void run() const;

 private:
  const Bound bound_;
  const std::function<void()> check_;
};

/// The class Bound.
void bind_bound_arrays(nanobind::module_& module);

}  // namespace tutti::python
