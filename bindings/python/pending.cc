#include "python/pending.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "python/arrays.h"
#include "python/callback_queue.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/interruptible.h"
#include "python/releases.h"
#include "tutti/error.h"
#include "tutti/pending.h"

namespace tutti::python {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

/// A clock of nanoseconds cannot count longer waits. This is three years.
constexpr double endless_seconds = 1e8;

steady_clock::time_point deadline_after(nb::handle timeout) {
  if (timeout.is_none()) return steady_clock::time_point::max();
  const double seconds = PyFloat_AsDouble(timeout.ptr());
  if (PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    refuse_type("timeout is a number of seconds, or None", timeout);
  }
  if (!(seconds >= 0)) {
    throw Error(ErrorCode::invalid_argument,
                std::string("timeout is ") + nb::str(timeout).c_str() +
                    "; it takes a number of seconds from 0, or None to wait without limit");
  }
  const double limited = std::min(seconds, endless_seconds);
  return steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(limited));
}

/// `call` is a Pending or a Bound.
template <typename Call>
bool wait_without_gil(const Call& call, steady_clock::time_point deadline) {
  const WithoutGil unlocked;
  const steady_clock::time_point now = steady_clock::now();
  return call.wait_for(std::clamp<steady_clock::duration>(deadline - now, {}, signal_delay));
}

template <typename Call>
bool wait_until_done(const Call& call, nb::handle timeout) {
  const steady_clock::time_point deadline = deadline_after(timeout);
  while (!wait_without_gil(call, deadline)) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (steady_clock::now() >= deadline) return false;
  }
  drop_released();
  return true;
}

/// Raises the builtin TimeoutError and not the package's, because the call has not failed.
void result(const Pending& pending, nb::handle timeout) {
  if (wait_until_done(pending, timeout)) return;
  const nb::str text = nb::str(
      "the call is not done within the timeout of {} s; it goes on, and may "
      "be waited for again");
  PyErr_SetObject(PyExc_TimeoutError, text.attr("format")(timeout).ptr());
  throw nb::python_error();
}

void wait_on(const Pending& pending, nb::handle stream) {
  const nb::module_ gpu = nb::module_::import_("tutti._gpu");
  const auto handle = nb::cast<std::uintptr_t>(nb::object(gpu.attr("handle")(stream)));
  const WithoutGil unlocked;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): so Python has it.
  pending.wait_on(reinterpret_cast<CUstream_st*>(handle));
}

bool is_done(const Pending& pending) {
  const bool done = pending.done();
  if (done) drop_released();
  return done;
}

nb::object repr(const Pending& pending) {
  if (!pending.done()) return nb::str("<tutti.Pending: in flight>");
  try {
    pending.wait();
  } catch (...) {
    return nb::str("<tutti.Pending: failed with {!r}>")
        .attr("format")(to_exception(std::current_exception()));
  }
  return nb::str("<tutti.Pending: done>");
}

void then(const Pending& pending, nb::callable callback) {
  nb::module_::import_("tutti._callback_queues").attr("refuse_async")(callback);
  callbacks().after(pending, std::move(callback));
}

void on_wakeups(const Pending& pending, nb::callable callback) {
  wakeups().after(pending, std::move(callback));
}

nb::object await(nb::handle pending) {
  return nb::module_::import_("tutti._asyncio").attr("wait")(pending);
}

constexpr const char* pending_doc = R"(The outcome of a call that goes on in the background.

`wait` blocks until the call is done, `await` waits in asyncio, and `then` adds a callback. The
program may drop a Pending: the call then goes on, and the store only logs its error. Thread-safe.)";

constexpr const char* wait_doc = R"(Blocks until the call is done. Other threads run meanwhile.

timeout: seconds, 0 or more. None: no limit. Returns True if the call is done, and False if the time
has passed first.

Raises the call's own error, every time: MismatchError, TimedOutError, PeerLostError, AbortedError or
InternalError. The contents of the call's outputs are then undefined. Raises InvalidArgumentError
for a timeout below 0. Ctrl-C interrupts the wait by KeyboardInterrupt; the call goes on and keeps
its arrays.)";

constexpr const char* wait_on_doc =
    R"(Makes a CUDA stream wait for the call, in place of this thread.

stream: torch's, cupy's, another with __cuda_stream__, or its handle as an int: 1 is CUDA's legacy
default stream, 2 this thread's. Work that is enqueued there later finds the results. Blocks only
until the last copy to an array on a GPU is issued; with arrays on the CPU until the call is done.
Raises what the call failed with by then, and InvalidArgumentError while the stream is captured.)";

constexpr const char* then_doc = R"(Calls `callback(error)` when the call is done. Does not block.

error: None, or the call's own error. All callbacks run on one thread of the package, even if the
call is already done. They run in the order in which their calls end; several callbacks of one call
run in the order in which they were added. A callback may submit calls and wait for them, but must
not wait for another callback. If it raises an exception, that goes to sys.unraisablehook.

At the end of the program, callbacks of calls that are done still run. A callback that takes longer
than a second is left behind. Raises TypeError for an object that cannot be called, and for an
`async def`, whose coroutine nobody would await.)";

constexpr const char* result_doc = R"(Waits as `wait` does, and returns the result of the call.

timeout: as in `wait`. If the time passes first, it raises the builtin TimeoutError, and the call
goes on. A TimedOutError, which is a TimeoutError, too, says that the call has failed.

The result is None if the results are in the arrays that were passed to the call. Arrays of jax
never change, so for them it returns new arrays, in lists like those of the call.)";

constexpr const char* await_doc =
    R"(`await pending` in asyncio: waits while the loop runs, and returns what `result` returns.

To cancel it ends the wait, but not the call, which keeps its arrays.)";

}  // namespace

bool wait(const Pending& pending, nb::handle timeout) {
  return wait_until_done(pending, timeout);
}

bool wait(const Bound& bound, nb::handle timeout) {
  return wait_until_done(bound, timeout);
}

void bind_pending(nb::module_& module) {
  nb::class_<Pending>(module, "Pending", pending_doc)
      .def(nb::init<const Pending&>(), nb::arg("pending"), "Another of the same call.")
      .def("wait", nb::overload_cast<const Pending&, nb::handle>(&wait),
           nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: SupportsFloat | SupportsIndex | None = None) -> bool"),
           wait_doc)
      .def("wait_on", &wait_on, nb::arg("stream").none(),
           nb::sig("def wait_on(self, stream: Any) -> None"), wait_on_doc)
      .def("result", &result, nb::arg("timeout") = nb::none(),
           nb::sig("def result(self, timeout: SupportsFloat | SupportsIndex | None = None) -> Any"),
           result_doc)
      .def("__repr__", &repr, nb::sig("def __repr__(self) -> str"))
      .def("done", &is_done, "Whether the call is done, or has failed. Does not block.")
      .def("then", &then, nb::arg("callback"),
           nb::sig("def then(self, callback: Callable[[Error | None], object]) -> None"), then_doc)
      .def("__await__", &await, nb::sig("def __await__(self) -> Generator[Any, None, Any]"),
           await_doc);
  module.def("on_wakeups", &on_wakeups, nb::arg("pending"), nb::arg("callback"),
             nb::sig("def on_wakeups(pending: Pending, callback: Callable[[Error | None], object]) "
                     "-> None"),
             "As Pending.then, on the thread that only wakes event loops.");
}

}  // namespace tutti::python
