#include "python/pending.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "python/releases.h"
#include "tutti/pending.h"

namespace tutti::python {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

/// A signal's handler, such as Ctrl-C's, runs at most so much later.
constexpr std::chrono::milliseconds signal_delay{100};
/// For longer waits a clock of nanoseconds has no numbers; it is three years.
constexpr double endless_seconds = 1e8;

steady_clock::time_point deadline_after(std::optional<double> seconds) {
  if (!seconds) return steady_clock::time_point::max();
  if (std::isnan(*seconds)) throw nb::value_error("the timeout is no number");
  const double limited = std::clamp(*seconds, 0.0, endless_seconds);
  return steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(limited));
}

bool wait_without_gil(const Pending& pending, steady_clock::time_point deadline) {
  const nb::gil_scoped_release unlocked;
  const steady_clock::time_point now = steady_clock::now();
  return pending.wait_for(std::clamp<steady_clock::duration>(deadline - now, {}, signal_delay));
}

bool wait(const Pending& pending, std::optional<double> timeout) {
  const steady_clock::time_point deadline = deadline_after(timeout);
  while (!wait_without_gil(pending, deadline)) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (steady_clock::now() >= deadline) return false;
  }
  drop_released();
  return true;
}

constexpr const char* pending_doc = R"(The outcome of a call that goes on in the background.

Dropping it is allowed: the work goes on, and an error is then only logged. Thread-safe.)";

constexpr const char* wait_doc = R"(Blocks until the call is done; other threads run meanwhile.

timeout: seconds. Returns False when they have passed first, else True. Raises what the call
failed with, every time; the contents of its outputs are undefined then. Ctrl-C interrupts the
wait with KeyboardInterrupt, while the call goes on and keeps its arrays.)";

}  // namespace

void bind_pending(nb::module_& module) {
  nb::class_<Pending>(module, "Pending", pending_doc)
      .def("wait", &wait, nb::arg("timeout") = nb::none(), wait_doc)
      .def("done", &Pending::done, "Whether the call is done, or has failed. Does not block.");
}

}  // namespace tutti::python
