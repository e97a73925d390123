#pragma once
#include <nanobind/nanobind.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "tutti/pending.h"

namespace tutti::python {

namespace nb = nanobind;

/// The callbacks that a thread of the package calls, one after the other. Calls end on the
/// library's threads, which must not wait for the GIL. So these threads leave callbacks here.
/// `tutti._callback_queues` starts the thread when it is first needed, and ends it before the
/// interpreter ends.
class CallbackQueue {
 public:
  struct Job {
    PyObject* callback;  ///< owned, not dropped by the destructor, which may have no GIL
    std::exception_ptr error;
  };

  explicit CallbackQueue(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  /// Calls `callback(error)` on the queue's thread once the call is done. The error is None or the
  /// exception. Needs the GIL.
  void after(const Pending& pending, nb::object callback);
  /// For the queue's thread: waits for the next job. Returns nothing if the queue is closed and all
  /// jobs are done.
  std::optional<Job> take();
  /// The thread runs the callbacks that are there, and then ends.
  void close();

 private:
  void add(Job job);
  void start();

  const char* const name_;
  bool started_ = false;  ///< guarded by the GIL
  std::mutex mutex_;      ///< level 5
  std::condition_variable changed_;
  std::deque<Job> jobs_;  ///< guarded by mutex_, as is closed_
  bool closed_ = false;
};

/// The queue of the program's callbacks, which may take long and may wait.
CallbackQueue& callbacks();
/// The queue of callbacks that only wake an event loop. They must not wait behind a callback of the
/// program.
CallbackQueue& wakeups();

void bind_callback_queues(nb::module_& module);

}  // namespace tutti::python
