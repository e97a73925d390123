#include "base/process_end.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/log.h"

namespace tutti::base {

Fd watch_process(pid_t process) {
  static std::atomic<bool> was_said{false};
  // glibc 2.36 declares pidfd_open only for C.
  Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  const int error = errno;
  if (!watched && error != ESRCH && !was_said.exchange(true)) {
    log().warn(
        "pidfd_open: {}; perhaps a container's seccomp filter refuses it; let the filter allow "
        "pidfd_open, or tutti notices late that a process has ended during create",
        std::generic_category().message(error));
  }
  errno = error;
  return watched;
}

}  // namespace tutti::base
