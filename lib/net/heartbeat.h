#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace tutti::net {

/// The interval between heartbeats, and the number that may be missing. An observer counts missing
/// ones in its own beats, so it counts none while the whole job is suspended.
struct Heartbeat {
  base::Clock::duration beat{};
  int most_missed = 0;
  std::string limit;  ///< the time that these take, with its option, for errors

  /// `shortest_timeout` is the shortest one of all ranks, so that every rank sends often enough for
  /// each.
  static Heartbeat from(std::chrono::milliseconds timeout,
                        std::chrono::milliseconds shortest_timeout);
};

/// Watches a counter that rises as long as its owner lives.
class HeartbeatCheck {
 public:
  /// Call this once a beat. Returns the number of beats in a row in which the counter did not
  /// change.
  int count_missed(std::uint64_t value) {
    missed_ = value == last_ ? missed_ + 1 : 0;
    last_ = value;
    return missed_;
  }

 private:
  std::uint64_t last_ = 0;
  int missed_ = 0;
};

/// A periodic timer. It does not make up for periods in which the thread slept.
class Ticker {
 public:
  explicit Ticker(base::Clock::duration beat) : beat_(beat), next_(base::Clock::now() + beat) {}

  base::Clock::time_point next() const { return next_; }
  bool tick() {
    const auto now = base::Clock::now();
    if (now < next_) return false;
    next_ = now + beat_;
    return true;
  }

 private:
  base::Clock::duration beat_;
  base::Clock::time_point next_;
};

}  // namespace tutti::net
