#include "runtime/flush_timer.h"

#include <algorithm>

namespace tutti::runtime {
namespace {

constexpr auto linger_time = std::chrono::seconds(40);
constexpr auto first_flush = std::chrono::microseconds(50);
constexpr auto last_flush = std::chrono::milliseconds(100);

}  // namespace

void FlushTimer::note_sent(Time now) {
  sent_ = now;
  next_ = now + first_flush;
}

void FlushTimer::note_leaving(Time now) {
  leaving_ = true;
  next_ = std::min(next_, now);
}

void FlushTimer::note_flushed(Time now) {
  const auto since = now - sent_;
  const bool goes_on = leaving_ || since < linger_time;
  next_ = goes_on ? now + std::clamp<base::Clock::duration>(since / 8, first_flush, last_flush)
                  : Time::max();
}

}  // namespace tutti::runtime
