#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "python/releases.h"
#include "tutti/bound.h"
#include "tutti/pending.h"

namespace tutti::python {

/// A bound call that Python owns. It holds the arrays. Its methods need the GIL, and give it up
/// while the library works.
class BoundArrays {
 public:
  /// `check` runs before each start, without the GIL. If it throws, nothing is submitted.
  BoundArrays(Bound bound, std::shared_ptr<HeldArrays> arrays, std::function<void()> check)
      : bound_(std::move(bound)), arrays_(std::move(arrays)), check_(std::move(check)) {}

  /// Submits the call, and does not block.
  Pending start();
  /// Waits for the last start, like Pending.wait of Python.
  bool wait(nanobind::handle timeout) const;
  /// Blocks, also for other ranks, unless a signal's handler raises an exception.
  void run();

  /// For Python's garbage collector: shows it the objects that only the binding holds, and lets go
  /// of them. An array may hold its own binding. Once cleared, a binding refuses every call.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  Bound bound_;
  std::shared_ptr<HeldArrays> arrays_;
  std::function<void()> check_;
  std::optional<Pending> last_;  ///< of the calls
};

/// The class Bound.
void bind_bound_arrays(nanobind::module_& module);

}  // namespace tutti::python
