#pragma once
#include <sys/types.h>

#include "base/fd.h"

namespace tutti::base {

/// Returns a descriptor (a pidfd) that becomes readable when the process has ended. Returns none if
/// the process has already ended (errno is ESRCH), or if the kernel or a container's filter refuses
/// pidfd_open. A refusal is logged once for each process, with advice. Callers go on without the
/// descriptor.
Fd watch_process(pid_t process);

}  // namespace tutti::base
