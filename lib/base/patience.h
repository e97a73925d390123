#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace tutti::base {

/// The occasion of a wait, in the words of its errors.
struct Occasion {
  std::string_view when{};    ///< "while the store was created"; may be empty
  std::string_view advice{};  ///< for a wait that was too short; may be empty
};

/// The deadline of a wait, and a check that may end it before.
struct Patience {
  // NOLINTNEXTLINE(google-explicit-constructor): a deadline is all that most waits have.
  Patience(Clock::time_point until, std::function<void()> look_out = {}, Occasion part_of = {})
      : deadline(until), look(std::move(look_out)), occasion(part_of) {}

  bool over() const { return Clock::now() >= deadline; }
  void look_now() const {
    if (look) look();
  }
  /// The time until which to sleep. Then `look_now` is due again.
  Clock::time_point next_look() const {
    constexpr auto often = std::chrono::milliseconds(20);
    return look ? std::min(deadline, Clock::now() + often) : deadline;
  }

  Clock::time_point deadline;
  /// Throws if the wait is in vain, such as when a rank is lost. May be empty.
  std::function<void()> look;
  Occasion occasion;

  /// The text that follows the thing waited for, in an error: " while the store was created".
  std::string when() const { return occasion.when.empty() ? "" : " " + std::string(occasion.when); }
  /// The text at the end of the error: " (raise TUTTI_CREATE_SECONDS)".
  std::string advice() const {
    return occasion.advice.empty() ? "" : " (" + std::string(occasion.advice) + ")";
  }
};

}  // namespace tutti::base
