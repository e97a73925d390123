// Handles stores that are open when an exception leaves their block, and when the process ends.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "python/gil.h"
#include "python/interruptible.h"
#include "python/releases.h"
#include "python/store.h"

namespace tutti::python {
namespace {

/// The stores that are left open until the process exits, oldest first. The list is never
/// destroyed. The GIL guards it, and the exit handler uses it.
std::vector<std::shared_ptr<KVStore>>& left_open() {
  static auto* const stores = new std::vector<std::shared_ptr<KVStore>>;
  return *stores;
}

/// A hook that runs before the stores that are left open are closed.
std::function<void(int)>& last_call() {
  static auto* const call = new std::function<void(int)>;
  return *call;
}

/// Treats the end of a process like the library. With status 0 it logs nothing, because Python
/// programs keep stores in global variables.
void at_exit(int status, void* /*unused*/) {
  if (last_call()) last_call()(status);
  if (status != 0) return;
  // The newest store is closed first, as a program would do that closes what it opened.
  while (!left_open().empty()) left_open().pop_back();
}

/// Whether the process ends with status 0 if nobody catches the exception.
bool ends_in_order(nb::handle raised) {
  if (raised.is_none()) return true;
  if (!nb::isinstance(raised, PyExc_SystemExit)) return false;
  const nb::object code = raised.attr("code");
  return code.is_none() || code.equal(nb::int_(0));
}

}  // namespace

void Store::leave_block(nb::handle raised) {
  if (raised.is_none()) {
    close();
  } else if (ends_in_order(raised)) {
    // An error of the close must not hide the exception that is raised. The process ends with
    // another status.
    interruptible([last = std::exchange(store_, nullptr)]() mutable { last.reset(); });
    drop();
  } else if (store_ != nullptr && nb::isinstance(raised, PyExc_SystemExit)) {
    // Before Python exits, it drops the objects to which this exception refers, and with them the
    // store. So this keeps the store.
    left_open().push_back(store_);
  }
}

void Store::call_last(std::function<void(int)> call) {
  last_call() = std::move(call);
}

void Store::end_process(int status, const std::string& why) {
  if (!left_open().empty()) {
    const int rank = left_open().back()->rank();
    if (!why.empty()) fmt::print(stderr, "tutti[rank {}] error: {}\n", rank, why);
    fmt::print(stderr,
               "tutti[rank {}] error: a store was still open when the process ended with status "
               "{}: it stays open, and the other ranks take this rank for lost\n",
               rank, status);
  }
  std::fflush(nullptr);
  ::_exit(status);
}

void Store::outlive_interpreter() {
  keep_gil_until_the_end();
  stop_dropping();
  for (Store* const store : std::exchange(open_stores(), {})) {
    left_open().push_back(std::move(store->store_));
  }
  // Registered as late as possible, because the handler that is registered last is called first. So
  // this one runs before the library's own handler, which then finds nothing open, and before the
  // destructors of static objects that running threads still use.
  if (Py_AtExit([] { ::on_exit(at_exit, nullptr); }) != 0) ::on_exit(at_exit, nullptr);
}

}  // namespace tutti::python
