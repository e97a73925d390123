#pragma once
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/doorbell.h"

namespace tutti::runtime {

/// Lets a thread that moves data wait: it spins for as long as a wake-up costs, then yields for a
/// while, and then sleeps on its doorbell. It does not spin if there are more ranks than
/// processors, because the rank for which it waits may need this processor. Nor does it spin if
/// transfers take long, as on a slow network.
class Waiter {
 public:
  /// The events that may end a wait.
  enum class For : std::uint8_t {
    doorbell,  ///< only a ring: sleep until it comes
    gate,      ///< waits also for MPI messages of a gate, which ring no bell: polls now and then
    transfer,  ///< waits also for MPI messages of a batch that moves: polls often
  };

  Waiter(base::Doorbell& bell, bool crowded,
         base::Doorbell::Listener who = base::Doorbell::Listener::owner)
      : bell_(bell), who_(who), crowded_(crowded) {}

  /// Says in words how the waiter waits for the doorbell.
  static std::string policy(bool crowded);
  /// Notes that something moved: the next wait begins with spinning again.
  void reset();
  void reset(base::Clock::time_point now);
  /// Forgets how long this thread has waited, because another thread has waited meanwhile.
  void forget() { waiting_ = false; }
  /// Waits a little: until the bell has rung since `ticket`, but at most until `deadline`. If the
  /// reason is another one than before, it also begins with spinning again.
  void wait(std::uint32_t ticket, For reason, base::Clock::time_point deadline);

  /// The steps of `wait`: each call takes one of them.
  enum class Step : std::uint8_t { spin, yield, sleep };
  Step next(For reason, base::Clock::time_point now);
  /// Returns the length of the next sleep, if a ring of the bell is not the only event that may end
  /// it.
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
  base::Clock::duration usual_transfer_{};  ///< the time that recent waits for a transfer took
};

}  // namespace tutti::runtime
