#include "python/bound.h"

#include "python/gil.h"
#include "python/interruptible.h"
#include "python/pending.h"
#include "python/releases.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;

constexpr const char* bound_doc =
    R"(A pushpull whose arguments are settled. KVStore.bind makes one.

Each start is an ordinary call for the keys: it meets the calls of pushpull and allreduce, and the bound
calls, that other ranks make for them. The binding holds the arrays. While no call is in flight, the
program may read and write them, but resize raises an error.

If the program drops a binding whose call is in flight, the call goes on and keeps its arrays. A binding
does not keep the store open. Thread-safe.)";

constexpr const char* start_doc =
    R"(Submits the call, as KVStore.pushpull does, and returns its Pending.

Does not block. Collective. The program may drop the Pending and call `wait` instead. After each of these
errors the program may start the call again:
    DuplicateKeyError: with dist_sync_mpi, one of the keys is in flight, be it by an earlier start of this
        binding;
    InvalidArgumentError: with check_finite, an array has a NaN or an infinity;
    UnsupportedError: this process is a forked child;
    AbortedError, PeerLostError, InternalError: the store is closed, or has ended by that error.)";

constexpr const char* wait_doc =
    R"(Blocks until the call of the last `start` or `run` is done, like Pending.wait.

timeout: seconds, 0 or more. None: no limit. Returns True if the call is done, and False if the time has
passed first. If there was no start yet, it returns True at once. Raises as Pending.wait does.)";

constexpr const char* run_doc = R"(Starts the call, and waits for it.

Blocks until every rank has made its call for the keys. That takes less time than `start` and `wait`. A
program that computes while arrays are exchanged calls these two instead. Collective. Raises as `start`
and `wait` do.)";

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<BoundArrays>(self)->traverse(visit, arg);
}

int clear(PyObject* self) {
  nb::inst_ptr<BoundArrays>(self)->clear();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                       {0, nullptr}};

}  // namespace

Pending BoundArrays::start() {
  drop_released();
  Pending pending = [this] {
    const WithoutGil unlocked;
    check_();
    return bound_.start();
  }();
  last_ = pending;
  return pending;
}

bool BoundArrays::wait(nb::handle timeout) const {
  return python::wait(bound_, timeout);
}

void BoundArrays::run() {
  const Pending pending = [this] {
    const WithoutGil unlocked;
    check_();
    return bound_.run_for(signal_delay);
  }();
  last_ = pending;
  python::wait(pending, nb::none());
}

// A call in flight holds the arrays, too, so the collector must see that something else refers to
// them: it would finalise them otherwise. A call may end between two passes of the collector. None
// can begin then, because that needs the GIL.
int BoundArrays::traverse(visitproc visit, void* arg) const {
  if (arrays_ == nullptr || (last_ && !last_->done())) return 0;
  for (const nb::object& object : arrays_->objects) Py_VISIT(object.ptr());
  return 0;
}

void BoundArrays::clear() {
  bound_ = Bound(nullptr);
  check_ = [] {};
  arrays_ = nullptr;
  drop_released();
}

void bind_bound_arrays(nb::module_& module) {
  nb::class_<BoundArrays>(module, "Bound", bound_doc, nb::type_slots(slots))
      .def("start", &BoundArrays::start, start_doc)
      .def("wait", &BoundArrays::wait, nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: SupportsFloat | SupportsIndex | None = None) -> bool"),
           wait_doc)
      .def("run", &BoundArrays::run, run_doc);
}

}  // namespace tutti::python
