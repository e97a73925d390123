#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace tutti::observe {

/// The last events of one thread, for the report of a hang. To record one costs a few stores and no
/// allocation. Not thread-safe: one thread owns it.
class FlightRecorder {
 public:
  static constexpr std::size_t capacity = 64;

  /// `event` must be a literal. `a` and `b` are any helpful numbers, such as epoch and batch.
  void record(base::Clock::time_point when, const char* event, std::uint64_t a = 0,
              std::uint64_t b = 0) {
    events_[next_++ % capacity] = {when, event, a, b};
  }
  /// The last events, at most `most`, oldest first, with the time that has passed since:
  /// "12.3 ms ago: entered 1 5, 4.5 ms ago: gate closed 1 5".
  std::string dump(std::size_t most = capacity) const;

 private:
  struct Event {
    base::Clock::time_point when;
    const char* event = nullptr;
    std::uint64_t a = 0;
    std::uint64_t b = 0;
  };
  std::array<Event, capacity> events_{};
  std::size_t next_ = 0;
};

}  // namespace tutti::observe
