#pragma once
#include <chrono>

namespace tutti::bench {

/// Simulates a device that computes layers one after another, each for a given time.
class Compute {
 public:
  /// `busy`: the device is this thread's processor, and computing takes processor time, which the
  /// store's threads may need, too. Otherwise the device is elsewhere, and the thread sleeps until
  /// the device has finished. The thread's work meanwhile takes none of the device's time.
  explicit Compute(bool busy) : busy_(busy) { restart(); }

  /// Notes that the device was idle until now.
  void restart();
  /// Notes that the work of this thread since the last call does not count as computing.
  void leave_out();
  /// Blocks until the device has computed for this many seconds more. On a busy device the thread's
  /// work since the last call counts as a part of them.
  void run(double seconds);

 private:
  const bool busy_;
  std::chrono::steady_clock::time_point done_;
  double used_ = 0;  ///< processor seconds of this thread, where `busy_`
};

}  // namespace tutti::bench
