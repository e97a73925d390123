#include "python/callback_queue.h"

#include <pthread.h>

#include <utility>

#include "python/errors.h"
#include "python/gil.h"

namespace tutti::python {
namespace {

// The queues are never destroyed, because the library's threads use them until the process ends.
// The GIL guards them.
CallbackQueue* callbacks_queue = new CallbackQueue("tutti-callbacks");
CallbackQueue* wakeups_queue = new CallbackQueue("tutti-wakeups");

/// A forked child does not have the threads of the queues, and perhaps not the thread that held a
/// mutex.
void renew_in_child() {
  callbacks_queue = new CallbackQueue(callbacks_queue->name());
  wakeups_queue = new CallbackQueue(wakeups_queue->name());
}

[[maybe_unused]] const int renews_in_child = ::pthread_atfork(nullptr, nullptr, renew_in_child);

/// Returns (callback, error), or None.
nb::object next_callback(CallbackQueue& queue) {
  std::optional<CallbackQueue::Job> job;
  {
    const WithoutGil unlocked;
    job = queue.take();
  }
  if (!job) return nb::none();
  return nb::make_tuple(nb::steal(job->callback), to_exception(job->error));
}

/// Reports the exception as Python reports one that nobody can catch: through sys.unraisablehook.
void report(nb::handle raised, nb::handle callback) {
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
  PyErr_WriteUnraisable(callback.ptr());
}

}  // namespace

void CallbackQueue::after(const Pending& pending, nb::object callback) {
  start();
  pending.then([this, owned = callback.ptr()](std::exception_ptr error) {
    add({owned, std::move(error)});
  });
  // The job owns the callback from now on. The job's thread drops it, and gets the GIL only when
  // this function has returned.
  callback.release();
}

void CallbackQueue::start() {
  if (started_) return;
  nb::module_::import_("tutti._callback_queues")
      .attr("start")(nb::cast(this, nb::rv_policy::reference));
  started_ = true;
}

void CallbackQueue::add(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

std::optional<CallbackQueue::Job> CallbackQueue::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
  if (jobs_.empty()) return std::nullopt;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

void CallbackQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

CallbackQueue& callbacks() {
  return *callbacks_queue;
}

CallbackQueue& wakeups() {
  return *wakeups_queue;
}

void bind_callback_queues(nb::module_& module) {
  nb::class_<CallbackQueue>(module, "CallbackQueue",
                            "What a thread of the package's own has to call.")
      .def_prop_ro("name", &CallbackQueue::name, "Of its thread.")
      .def(
          "next", &next_callback,
          "Waits for the next (callback, error); None when the queue is closed.",
          nb::sig("def next(self) -> tuple[Callable[[Error | None], object], Error | None] | None"))
      .def("close", &CallbackQueue::close, "Its thread does what is there, and ends.");
  module.def("report", &report, nb::arg("raised"), nb::arg("callback"),
             "Hands an exception of a callback to sys.unraisablehook.");
}

}  // namespace tutti::python
