#include "runtime/fork_guard.h"

#include <pthread.h>

#include "tutti/error.h"

namespace tutti::runtime {
namespace {

// Process-wide, for pthread_atfork handlers can neither be removed nor get an argument.
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
  throw Error(ErrorCode::unsupported,
              "this process was forked after the store was created; a child cannot use its "
              "parent's store (create the store after fork(), or use it in the parent only)");
}

}  // namespace tutti::runtime
