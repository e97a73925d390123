#pragma once
#include "base/clock.h"

namespace tutti::runtime {

/// Tells when to call MPI although nothing is waited for here. A send that MPI reports as complete
/// may still have its last bytes queued in this process (Open MPI's TCP does so when a socket is
/// full), and they are sent only while this process calls MPI. A plain value without a clock.
class FlushTimer {
 public:
  using Time = base::Clock::time_point;

  /// Something was sent that MPI may hold back. MPI is then called less and less often, for longer
  /// than the usual heartbeat timeout.
  void note_sent(Time now);
  /// This rank has asked to leave. From now on it calls MPI until the end, because a peer may read
  /// late, and no rank may leave before all have received everything.
  void note_leaving(Time now);
  /// MPI was called.
  void note_flushed(Time now);
  /// The time of the next call of MPI; the end of time if none is due.
  Time next() const { return next_; }

 private:
  Time sent_{};
  Time next_ = Time::max();
  bool leaving_ = false;
};

}  // namespace tutti::runtime
