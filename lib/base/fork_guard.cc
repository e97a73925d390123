#include "base/fork_guard.h"

#include <pthread.h>

#include "tutti/error.h"

namespace tutti::base {
namespace {

// Process-wide, because pthread_atfork handlers can neither be removed nor get an argument.
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
      "this process was forked from the one that created the store, which alone can use it: "
      "hand that one what is to be exchanged (Python: by a multiprocessing queue, or as a "
      "pool's result); a store of one process, such as 'local', can be created here, too");
}

}  // namespace tutti::base
