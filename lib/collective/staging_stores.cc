#include "collective/staging_stores.h"

namespace tutti::collective {
namespace {

/// From one trial of the other way to the next: it costs one or two of a hundred parts of the time.
constexpr std::uint64_t between_trials = 512;

/// The caches are left where they take so many times as long, and returned to below the other. It
/// is more than once, for those who read it gain from the caches, too.
constexpr double too_long = 2.5;
constexpr double long_enough = 1.7;

}  // namespace

bool StagingStores::next_around() {
  const bool trial = copies_++ % between_trials < copies_a_trial;
  return trial != around_;
}

void StagingStores::took(bool around, std::size_t bytes, Duration time) {
  Pace& pace = around ? around_caches_ : into_caches_;
  pace.took(static_cast<double>(time.count()) / static_cast<double>(bytes));
  if (!into_caches_.known() || !around_caches_.known()) return;
  const double ratio = into_caches_.least() / around_caches_.least();
  around_ = ratio > (around_ ? long_enough : too_long);
}

}  // namespace tutti::collective
