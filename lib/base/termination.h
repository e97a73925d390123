#pragma once
#include <csignal>

#include "base/fd.h"

namespace tutti::base {

/// SIGTERM as an event for a poller, on the thread that creates this. The destructor restores the
/// thread's mask of blocked signals.
class Termination {
 public:
  Termination();
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  /// Readable once the signal has come.
  const Fd& descriptor() const { return signal_; }
  /// Takes the signal, if it has come; returns whether it had.
  bool take();

 private:
  sigset_t before_{};
  Fd signal_;
};

}  // namespace tutti::base
