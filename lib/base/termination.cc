#include "base/termination.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/failure.h"

namespace tutti::base {

Termination::Termination() {
  sigset_t terminating;
  sigemptyset(&terminating);
  sigaddset(&terminating, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &terminating, &before_);
  signal_ = Fd(::signalfd(-1, &terminating, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signal_) throw system_failure("watch for SIGTERM");
}

Termination::~Termination() {
  // A signal that was seen must not end the process once more.
  take();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Termination::take() {
  signalfd_siginfo info{};
  return ::read(signal_.get(), &info, sizeof info) == sizeof info;
}

}  // namespace tutti::base
