#include "collective/staging_stores.h"

namespace tutti::collective {
namespace {

/// If ordinary stores take more than `too_long` times as long, stores go around the caches. If they
/// take less than the smaller number, stores are ordinary again. Both numbers exceed 1, because
/// readers gain from the caches.
constexpr double too_long = 2.5;
constexpr double long_enough = 1.7;

}  // namespace

bool StagingStores::choose_next() {
  const bool trial = copies_++ % pacing_.between_trials < copies_a_trial;
  last_around_ = trial != around_;
  return last_around_;
}

void StagingStores::note_time(bool around, std::size_t bytes, Duration time) {
  Pace& pace = around ? around_caches_ : into_caches_;
  pace.note_time(static_cast<double>(time.count()) / static_cast<double>(bytes));
  if (!into_caches_.known() || !around_caches_.known()) return;
  const double times = around_ ? long_enough : too_long;
  around_ = into_caches_.least() > times * around_caches_.least();
}

}  // namespace tutti::collective
