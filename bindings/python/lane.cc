#include "python/lane.h"

#include <pthread.h>

#include <utility>

#include "python/errors.h"
#include "python/gil.h"

namespace tutti::python {
namespace {

// Never destroyed: the library's threads use them until the process ends. Guarded by the GIL.
Lane* callbacks_lane = new Lane("tutti-callbacks");
Lane* wakeups_lane = new Lane("tutti-wakeups");

/// A forked child has neither their threads nor, perhaps, the thread that held a mutex.
void renew_in_child() {
  callbacks_lane = new Lane(callbacks_lane->name());
  wakeups_lane = new Lane(wakeups_lane->name());
}

[[maybe_unused]] const int renews_in_child = ::pthread_atfork(nullptr, nullptr, renew_in_child);

/// (callback, error), or None.
nb::object next(Lane& lane) {
  std::optional<Lane::Job> job;
  {
    const WithoutGil unlocked;
    job = lane.take();
  }
  if (!job) return nb::none();
  return nb::make_tuple(nb::steal(job->callback), to_exception(job->error));
}

/// As Python reports an exception that nobody can catch: through sys.unraisablehook.
void report(nb::handle raised, nb::handle callback) {
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
  PyErr_WriteUnraisable(callback.ptr());
}

}  // namespace

void Lane::after(const Pending& pending, nb::object callback) {
  start();
  pending.then([this, owned = callback.ptr()](std::exception_ptr error) {
    add({owned, std::move(error)});
  });
  // The job's from now on: its thread drops it, which until this returns has not got the GIL.
  callback.release();
}

void Lane::start() {
  if (started_) return;
  nb::module_::import_("tutti._lanes").attr("start")(nb::cast(this, nb::rv_policy::reference));
  started_ = true;
}

void Lane::add(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

std::optional<Lane::Job> Lane::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
  if (jobs_.empty()) return std::nullopt;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

void Lane::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

Lane& callbacks() {
  return *callbacks_lane;
}

Lane& wakeups() {
  return *wakeups_lane;
}

void bind_lanes(nb::module_& module) {
  nb::class_<Lane>(module, "Lane", "What a thread of the package's own has to call.")
      .def_prop_ro("name", &Lane::name, "Of its thread.")
      .def(
          "next", &next, "Waits for the next (callback, error); None when the lane is closed.",
          nb::sig("def next(self) -> tuple[Callable[[Error | None], object], Error | None] | None"))
      .def("close", &Lane::close, "Its thread does what is there, and ends.");
  module.def("report", &report, nb::arg("raised"), nb::arg("callback"),
             "Hands an exception of a callback to sys.unraisablehook.");
}

}  // namespace tutti::python
