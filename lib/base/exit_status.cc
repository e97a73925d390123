#include "base/exit_status.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace tutti::base {
namespace {

std::atomic<pid_t> failed{0};

void leave(int status, void* /*unused*/) {
  // glibc allows an exit within an exit. The other handlers still run, and get this status.
  if (status == 0 && failed == ::getpid()) std::exit(EXIT_FAILURE);
}

}  // namespace

void fail_at_exit() {
  static const int registered = ::on_exit(leave, nullptr);
  static_cast<void>(registered);
  failed = ::getpid();
}

}  // namespace tutti::base
