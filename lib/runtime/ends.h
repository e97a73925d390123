#pragma once
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/presence.h"
#include "net/end_notices.h"

namespace tutti::runtime {

/// Who is lost while a store is created: the processes of this machine that have come are seen,
/// and the launcher, if there is one, tells of every process of the job that has ended. For one
/// thread at a time.
class Ends {
 public:
  /// `presence` outlives this.
  Ends(control::Presence& presence, net::EndNotices notices)
      : presence_(presence), notices_(std::move(notices)) {}

  /// As `Presence::poll_lost`. A process that is seen to end is lost when the launcher has said how
  /// it ended, or a moment later.
  std::optional<control::Presence::Lost> poll_lost(std::chrono::milliseconds stopped_for,
                                                   const std::vector<int>& among = {});

 private:
  std::optional<control::LostRank> notice_of_any(const std::vector<int>& ranks);

  control::Presence& presence_;
  net::EndNotices notices_;
  std::optional<base::Clock::time_point> wait_until_;
};

}  // namespace tutti::runtime
