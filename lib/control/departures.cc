#include "control/departures.h"

namespace tutti::control {

bool Departures::mark(int rank) {
  const base::Lock lock(mutex_);
  const auto at = static_cast<std::size_t>(rank);
  if (departed_[at]) return false;
  departed_[at] = true;
  changed_.notify_all();
  return true;
}

bool Departures::has(int rank) const {
  const base::Lock lock(mutex_);
  return departed_[static_cast<std::size_t>(rank)];
}

void Departures::give_up() {
  const base::Lock lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

std::vector<int> Departures::present(std::span<const int> ranks) const {
  std::vector<int> result;
  for (const int rank : ranks) {
    if (!departed_[static_cast<std::size_t>(rank)]) result.push_back(rank);
  }
  return result;
}

std::vector<int> Departures::wait(std::span<const int> ranks, base::Clock::time_point deadline) {
  base::Lock lock(mutex_);
  for (;;) {
    std::vector<int> left = present(ranks);
    if (left.empty() || given_up_ || base::Clock::now() >= deadline) return left;
    changed_.wait_until(lock, deadline);
  }
}

}  // namespace tutti::control
