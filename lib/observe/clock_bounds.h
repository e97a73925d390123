#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace tutti::observe {

/// A machine at a meeting that nobody leaves before everybody has come: when the last of its ranks
/// came and the first one left, ns on its own clock.
struct Passage {
  std::int64_t came = std::numeric_limits<std::int64_t>::min();
  std::int64_t left = std::numeric_limits<std::int64_t>::max();

  void add(std::int64_t rank_came, std::int64_t rank_left) {
    came = std::max(came, rank_came);
    left = std::min(left, rank_left);
  }
};

/// How far another machine's clock is behind the reference's: each meeting bounds it from both
/// sides, and many meetings closely.
class ClockBounds {
 public:
  /// Nothing is known yet.
  ClockBounds() = default;
  /// Within `error` it is set right.
  explicit ClockBounds(std::int64_t error) : least_(-error), most_(error) {}

  void add(const Passage& reference, const Passage& other) {
    least_ = std::max(least_, reference.came - other.left);
    most_ = std::min(most_, reference.left - other.came);
  }
  /// To be added to the other's clock.
  std::int64_t offset() const { return least_ + (most_ - least_) / 2; }
  /// The true offset is at most this far from `offset()`.
  std::int64_t error() const { return (most_ - least_ + 1) / 2; }
  /// The bounds have crossed: the clocks drift.
  bool is_contradictory() const { return least_ > most_; }

 private:
  // Far from overflow.
  std::int64_t least_ = std::numeric_limits<std::int64_t>::min() / 4;
  std::int64_t most_ = std::numeric_limits<std::int64_t>::max() / 4;
};

/// Both machines at one meeting.
struct Meeting {
  Passage reference;
  Passage other;
};

/// What a clock that was set within some error still lacks: less is known at first, and it drifts.
/// One offset for all the time if it fits all meetings, otherwise by time on a straight line.
class Drift {
 public:
  /// None.
  Drift() = default;
  /// Out of meetings in the order of time.
  Drift(const std::vector<Meeting>& meetings, std::int64_t error);

  std::int64_t at(std::int64_t when) const;
  /// Near the beginning of the recording, and near its end.
  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }
  /// What is left of the error, as far as meetings tell.
  std::int64_t error() const { return error_; }

 private:
  /// By how much the line leaves the bounds of the meeting that it fits worst.
  std::int64_t strayed(const std::vector<Meeting>& meetings) const;

  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t error_ = 0;
};

}  // namespace tutti::observe
