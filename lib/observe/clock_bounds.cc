#include "observe/clock_bounds.h"

#include <span>

namespace tutti::observe {
namespace {

ClockBounds narrowed(ClockBounds bounds, std::span<const Meeting> meetings) {
  for (const Meeting& meeting : meetings) bounds.add(meeting.reference, meeting.other);
  return bounds;
}

/// What was known before counts unless the clock has drifted away from it since.
ClockBounds bounds_of(std::span<const Meeting> meetings, std::int64_t error) {
  const ClockBounds all = narrowed(ClockBounds(error), meetings);
  return all.contradictory() ? narrowed(ClockBounds(), meetings) : all;
}

}  // namespace

// Over a quarter of the recording clocks drift little, and some meeting is a quick one.
Drift::Drift(const std::vector<Meeting>& meetings, std::int64_t error) : error_(error) {
  if (meetings.empty()) return;
  constexpr std::size_t share = 4;
  const std::span all(meetings);
  const std::size_t few = (all.size() + share - 1) / share;
  const ClockBounds at_first = bounds_of(all.first(few), error);
  const ClockBounds at_last = bounds_of(all.last(few), error);
  first_ = at_first.offset();
  last_ = at_last.offset();
  error_ = std::max(at_first.error(), at_last.error());
  begin_ = all[few / 2].other.came;
  end_ = all[all.size() - 1 - few / 2].other.came;
}

std::int64_t Drift::at(std::int64_t when) const {
  if (when <= begin_ || end_ <= begin_) return first_;
  const double part = static_cast<double>(when - begin_) / static_cast<double>(end_ - begin_);
  return first_ + static_cast<std::int64_t>(static_cast<double>(last_ - first_) * part);
}

}  // namespace tutti::observe
