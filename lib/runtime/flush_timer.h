#pragma once
#include "base/clock.h"

namespace tutti::runtime {

/// Tells when to call MPI although this rank waits for nothing. A send that MPI reports as complete
/// may still have its last bytes queued in this process; Open MPI's TCP queues them if a socket is
/// full. They are sent only while this process calls MPI. A plain value without a clock.
class FlushTimer {
 public:
  using Time = base::Clock::time_point;

  /// Notes that something was sent that MPI may hold back. MPI is then called less and less often,
  /// for longer than the usual heartbeat timeout.
  void note_sent(Time now);
  /// Notes that this rank has asked to leave. From now on it calls MPI until the end, because
  /// another rank may read late, and no rank may leave before all have received everything.
  void note_leaving(Time now);
  /// Notes that MPI was called.
  void note_flushed(Time now);
  /// The time of the next call of MPI. If none is due, the end of time.
  Time next() const { return next_; }

 private:
  Time sent_{};
  Time next_ = Time::max();
  bool leaving_ = false;
};

}  // namespace tutti::runtime
