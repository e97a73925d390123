#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/failure.h"

namespace tutti::base {

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Fd Fd::duplicate() const {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw system_failure("duplicate a descriptor");
  return Fd(copy);
}

}  // namespace tutti::base
