#include "control/wake.h"

#include <sys/eventfd.h>

#include "base/failure.h"

namespace tutti::control {

base::Fd make_wake() {
  base::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw base::system_failure("make an eventfd");
  return event;
}

void wake(const base::Fd& event) {
  // It fails only when 2^64 - 2 rings are pending, and then the sleeper is awake.
  static_cast<void>(::eventfd_write(event.get(), 1));
}

void drain(const base::Fd& event) {
  eventfd_t rings = 0;
  static_cast<void>(::eventfd_read(event.get(), &rings));
}

}  // namespace tutti::control
