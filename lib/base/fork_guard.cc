#include "base/fork_guard.h"

#include <pthread.h>

#include "tutti/error.h"

namespace tutti::base {
namespace {

// The counter belongs to the process, because pthread_atfork handlers can neither be removed nor
// get an argument.
std::atomic<unsigned>& generation() {
  static std::atomic<unsigned> count{0};
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { generation().fetch_add(1); });
  static_cast<void>(registered);
  return count;
}

}  // namespace

ForkGuard::ForkGuard() : born_(generation().load()) {}

bool ForkGuard::is_in_child() const {
  return generation().load() != born_;
}

void ForkGuard::check() const {
  if (!is_in_child()) return;
  throw Error(
      ErrorCode::unsupported,
      "this process was forked from the one that created the store, and only that process can "
      "use the store: pass it what is to be exchanged (in Python by a multiprocessing queue, or "
      "as a pool's result); this process can create a store of one process, such as 'local'");
}

}  // namespace tutti::base
