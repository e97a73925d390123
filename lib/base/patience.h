#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace tutti::base {

/// The deadline of a wait, and a check that may end it before.
struct Patience {
  // NOLINTNEXTLINE(google-explicit-constructor): a deadline is all that most waits have.
  Patience(Clock::time_point until, std::function<void()> look_out = {})
      : deadline(until), look(std::move(look_out)) {}

  bool over() const { return Clock::now() >= deadline; }
  void look_now() const {
    if (look) look();
  }
  /// Until when to sleep: then `look_now` is due again.
  Clock::time_point next_look() const {
    constexpr auto often = std::chrono::milliseconds(20);
    return look ? std::min(deadline, Clock::now() + often) : deadline;
  }

  Clock::time_point deadline;
  /// Throws if the wait is in vain, such as when a rank is lost. May be empty.
  std::function<void()> look;
};

}  // namespace tutti::base
