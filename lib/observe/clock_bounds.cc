#include "observe/clock_bounds.h"

#include <algorithm>
#include <cstdlib>

namespace tutti::observe {
namespace {

/// Meetings at one end of a recording, and the bounds that they give for its middle.
struct Stretch {
  ClockBounds bounds;
  std::int64_t from = 0;
  std::int64_t to = 0;

  std::int64_t middle() const { return from + (to - from) / 2; }
};

/// Takes as many meetings from this end as one constant offset fits. Over more of them the clocks
/// drift by more than the bounds allow.
template <typename Iterator>
Stretch stretch_from(Iterator from, Iterator end) {
  Stretch stretch;
  stretch.from = from->other.came;
  for (Iterator next = from; next != end; ++next) {
    ClockBounds narrower = stretch.bounds;
    narrower.add(next->reference, next->other);
    if (narrower.is_contradictory()) break;
    stretch.bounds = narrower;
    stretch.to = next->other.came;
  }
  return stretch;
}

}  // namespace

Drift::Drift(const std::vector<ClockSample>& meetings, std::int64_t error) : error_(error) {
  ClockBounds constant(error);
  for (const ClockSample& meeting : meetings) constant.add(meeting.reference, meeting.other);
  if (!constant.is_contradictory()) {
    first_ = last_ = constant.offset();
    error_ = constant.error();
    return;
  }
  const Stretch early = stretch_from(meetings.begin(), meetings.end());
  const Stretch late = stretch_from(meetings.rbegin(), meetings.rend());
  first_ = early.bounds.offset();
  last_ = late.bounds.offset();
  begin_ = early.middle();
  end_ = late.middle();
  error_ = 0;
  for (const Stretch& stretch : {early, late}) {
    // The drift within the stretch has narrowed its bounds by this much, so half of it is added to
    // the error.
    const std::int64_t drifted = std::abs(at(stretch.to) - at(stretch.from));
    error_ = std::max(error_, stretch.bounds.error() + drifted / 2);
  }
  error_ += strayed(meetings);
}

std::int64_t Drift::strayed(const std::vector<ClockSample>& meetings) const {
  std::int64_t most = 0;
  for (const ClockSample& meeting : meetings) {
    ClockBounds bounds;
    bounds.add(meeting.reference, meeting.other);
    const std::int64_t off = std::abs(at(meeting.other.came) - bounds.offset());
    most = std::max(most, off - bounds.error());
  }
  return most;
}

std::int64_t Drift::at(std::int64_t when) const {
  if (end_ <= begin_) return first_;
  // Far from the meetings the line may have any value.
  constexpr double most = 1e18;
  const double part = static_cast<double>(when - begin_) / static_cast<double>(end_ - begin_);
  const double drifted = static_cast<double>(last_ - first_) * part;
  return first_ + static_cast<std::int64_t>(std::clamp(drifted, -most, most));
}

}  // namespace tutti::observe
