#pragma once
#include <sys/types.h>

#include "base/fd.h"

namespace tutti::base {

/// A descriptor (a pidfd) that is readable when the process has ended. None where the process has
/// ended already (errno is ESRCH), and where the kernel or a container's filter refuses
/// pidfd_open, which is logged once a process with what to do. Callers go on without.
Fd watch_process(pid_t process);

}  // namespace tutti::base
