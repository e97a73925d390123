#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace tutti::observe {

/// One machine's times at a meeting, in ns on its own clock: when its last rank arrived, and when
/// its first rank left. No rank leaves a meeting (a gate, an all-gather) before all have arrived.
struct Passage {
  std::int64_t came = std::numeric_limits<std::int64_t>::min();
  std::int64_t left = std::numeric_limits<std::int64_t>::max();

  void add(std::int64_t rank_came, std::int64_t rank_left) {
    came = std::max(came, rank_came);
    left = std::min(left, rank_left);
  }
};

/// Bounds on the offset of another machine's clock against the reference's. Each meeting bounds it
/// from both sides; many meetings bound it closely.
class ClockBounds {
 public:
  /// There are no bounds yet.
  ClockBounds() = default;
  /// The clock has been set, and is right within `error`.
  explicit ClockBounds(std::int64_t error) : least_(-error), most_(error) {}

  void add(const Passage& reference, const Passage& other) {
    least_ = std::max(least_, reference.came - other.left);
    most_ = std::min(most_, reference.left - other.came);
  }
  /// The number that, added to the other machine's clock, gives the reference's clock.
  std::int64_t offset() const { return least_ + (most_ - least_) / 2; }
  /// The true offset is at most this far from `offset()`.
  std::int64_t error() const { return (most_ - least_ + 1) / 2; }
  /// Whether the bounds have crossed. Then the clocks drift.
  bool is_contradictory() const { return least_ > most_; }

 private:
  // The bounds begin at a quarter of the range, so that differences cannot overflow.
  std::int64_t least_ = std::numeric_limits<std::int64_t>::min() / 4;
  std::int64_t most_ = std::numeric_limits<std::int64_t>::max() / 4;
};

/// The times of both machines at one meeting.
struct ClockSample {
  Passage reference;
  Passage other;
};

/// The correction of a clock that was set within some error and may drift afterwards. It is one
/// constant offset if that fits all meetings, otherwise a straight line over time.
class Drift {
 public:
  /// A correction that changes nothing.
  Drift() = default;
  /// Computes the correction from meetings in the order of time.
  Drift(const std::vector<ClockSample>& meetings, std::int64_t error);

  std::int64_t at(std::int64_t when) const;
  /// The correction near the beginning of the recording, and near its end.
  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }
  /// The error that remains, according to the meetings.
  std::int64_t error() const { return error_; }

 private:
  /// The distance by which the line lies outside the bounds of the meeting that it fits worst.
  std::int64_t strayed(const std::vector<ClockSample>& meetings) const;

  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t error_ = 0;
};

}  // namespace tutti::observe
