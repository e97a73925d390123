#pragma once
#include <span>
#include <vector>

#include "base/mutex.h"

namespace tutti::control {

/// The ranks that have left the store by agreement, as this process knows them. Thread-safe.
class Departures {
 public:
  explicit Departures(int size) : departed_(static_cast<std::size_t>(size)) {}

  /// Notes that a rank has left. Returns false if that was already known.
  bool mark(int rank) TUTTI_EXCLUDES(mutex_);
  bool has(int rank) const TUTTI_EXCLUDES(mutex_);
  /// Ends all waits, now and later, because a rank is lost.
  void give_up() TUTTI_EXCLUDES(mutex_);
  /// Blocks until all of `ranks` have left, the deadline has passed or `give_up` was called.
  /// Returns the ranks that have not left.
  std::vector<int> wait(std::span<const int> ranks, base::Clock::time_point deadline)
      TUTTI_EXCLUDES(mutex_);

 private:
  std::vector<int> present(std::span<const int> ranks) const TUTTI_REQUIRES(mutex_);

  mutable base::Mutex mutex_{5};
  base::CondVar changed_;
  std::vector<bool> departed_ TUTTI_GUARDED_BY(mutex_);
  bool given_up_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::control
