#pragma once
#include <chrono>

namespace tutti::bench {

/// Stands for a device that computes layers one after another, for as long as it is told.
class Compute {
 public:
  /// Busy: on this thread's processor, and for so long of the processor's own time, which the
  /// store's threads may need too. Else: elsewhere, and the thread sleeps until it is done; what
  /// the thread does meanwhile takes none of the device's time.
  explicit Compute(bool busy) : busy_(busy) { restart(); }

  /// The device was idle until now.
  void restart();
  /// What the thread did since the last call was no part of the computing.
  void leave_out();
  /// Blocks until the device has computed for so many seconds more. On a busy one, what the thread
  /// did since the last call is a part of them.
  void run(double seconds);

 private:
  const bool busy_;
  std::chrono::steady_clock::time_point done_;
  double used_ = 0;  ///< processor seconds of this thread, where `busy_`
};

}  // namespace tutti::bench
