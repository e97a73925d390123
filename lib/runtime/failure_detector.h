#pragma once
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/presence.h"
#include "control/siblings.h"
#include "net/end_notices.h"

namespace tutti::runtime {

/// Finds the ranks that are lost while a store is created. It has these sources:
/// - `Presence` sees the processes of this machine that have called a `create`.
/// - If scripts/launch.py started the job, it tells of every process of the job that has ended.
/// - If all ranks run on this machine, the children that mpirun still has show which ranks have
///   ended before they called a `create`.
///
/// Only one thread at a time uses it: tutti-watch in MPI_Init, and then the thread that creates the
/// store.
class FailureDetector {
 public:
  /// `presence` outlives this object.
  FailureDetector(control::Presence& presence, net::EndNotices notices, control::Siblings siblings)
      : presence_(presence), notices_(std::move(notices)), siblings_(std::move(siblings)) {}

  /// Does the same as `Presence::poll_lost`. If this sees a process end, it waits a moment for the
  /// launcher, which says how the process ended. Then the rank is lost.
  std::optional<control::Presence::Lost> poll_lost(std::chrono::milliseconds stopped_for,
                                                   const std::vector<int>& among = {});
  /// Does the same as `Presence::poll_leaving`, without processes that are known to have ended.
  std::optional<control::FailedRank> poll_leaving(const std::vector<int>& among = {});

 private:
  std::optional<control::FailedRank> find_unseen(const std::vector<int>& ranks);
  std::optional<control::FailedRank> notice_of_any(const std::vector<int>& ranks);
  std::optional<control::FailedRank> missing_among(const std::vector<int>& ranks);

  control::Presence& presence_;
  net::EndNotices notices_;
  const control::Siblings siblings_;
  base::Clock::time_point next_count_{};
  // The outcome of the last count of mpirun's children:
  static constexpr int nobody = -1;
  int suspect_ = nobody;
  std::optional<control::FailedRank> missing_;
  std::optional<base::Clock::time_point> wait_until_;
};

}  // namespace tutti::runtime
