#pragma once
#include "base/clock.h"

namespace tutti::runtime {

/// When to call MPI although nothing is waited for here: a send that MPI calls complete may still
/// have its last words queued in this process (Open MPI's TCP does it when a socket is full), and
/// they leave only while somebody calls MPI. A plain value without a clock.
class FlushTimer {
 public:
  using Time = base::Clock::time_point;

  /// Something was sent that MPI may hold back: MPI is called ever less often, for longer than a
  /// rank may usually be silent before it is lost.
  void note_sent(Time now);
  /// This rank has asked to leave: from now on for as long as it takes, for a peer that reads late
  /// must find it at work, and nobody is let go before all have everything.
  void note_leaving(Time now);
  /// MPI was called.
  void note_flushed(Time now);
  /// When it is to be called; the end of time: not any more.
  Time next() const { return next_; }

 private:
  Time sent_{};
  Time next_ = Time::max();
  bool leaving_ = false;
};

}  // namespace tutti::runtime
