#pragma once
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/doorbell.h"

namespace tutti::runtime {

/// How a thread that moves data waits: it spins for as long as a wake-up costs, then yields for a
/// while, then sleeps on its doorbell. It does not spin if there are more ranks than processors,
/// because the rank for which it waits may need this processor. It does not spin either if
/// transfers take long, as on a slow network.
class Waiter {
 public:
  /// The events that may end a wait.
  enum class For : std::uint8_t {
    doorbell,  ///< only a ring: sleep until it comes
    gate,      ///< also MPI messages of a gate, which ring no bell: poll now and then
    transfer,  ///< also MPI messages of a batch that moves: poll often
  };

  Waiter(base::Doorbell& bell, bool crowded,
         base::Doorbell::Listener who = base::Doorbell::Listener::owner)
      : bell_(bell), who_(who), crowded_(crowded) {}

  /// In words: how it waits for the doorbell.
  static std::string policy(bool crowded);
  /// Something moved: the next wait starts with spinning again.
  void reset();
  void reset(base::Clock::time_point now);
  /// Another thread has waited meanwhile: forgets how long this one has.
  void forget() { waiting_ = false; }
  /// Waits a little: until the bell has rung since `ticket`, at most until `deadline`. Another
  /// reason than before also starts with spinning again.
  void wait(std::uint32_t ticket, For reason, base::Clock::time_point deadline);

  /// `wait` takes one of these.
  enum class Step : std::uint8_t { spin, yield, sleep };
  Step next(For reason, base::Clock::time_point now);
  /// How long the next sleep is, where a ring is not all that may end it.
  base::Clock::duration next_sleep(For reason) const;

 private:
  bool is_slow_transfer(For reason) const;

  base::Doorbell& bell_;
  const base::Doorbell::Listener who_;
  const bool crowded_;
  bool waiting_ = false;
  bool slept_ = false;
  int yields_ = 0;
  For reason_ = For::doorbell;
  base::Clock::time_point since_;
  base::Clock::duration waited_{};
  base::Clock::duration usual_transfer_{};  ///< how long recent waits for a transfer took
};

}  // namespace tutti::runtime
