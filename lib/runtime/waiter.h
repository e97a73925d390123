#pragma once
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/doorbell.h"

namespace tutti::runtime {

/// How a thread that moves data passes the time when it can do nothing: it spins for as long as a
/// wake-up would cost, yields a little longer, and sleeps on its doorbell. With more ranks than
/// processors it does not spin, for the rank it waits for may need this very processor. Nor does it
/// where transfers usually take long: on a slow network the processor is better left to others.
class Waiter {
 public:
  /// What could end the waiting.
  enum class For : std::uint8_t {
    doorbell,  ///< a ring, and nothing else: sleep until it comes
    gate,      ///< also an MPI message of a gate, which rings no bell: look now and then
    transfer,  ///< also MPI messages of a batch that is moving: look often
  };

  Waiter(base::Doorbell& bell, bool crowded,
         base::Doorbell::Listener who = base::Doorbell::Listener::owner)
      : bell_(bell), who_(who), crowded_(crowded) {}

  /// In words: how it waits for the doorbell.
  static std::string policy(bool crowded);
  /// Something moved: the next wait starts afresh.
  void reset();
  /// Another thread has waited meanwhile: as if this one had not waited yet.
  void forget() { waiting_ = false; }
  /// Passes a little time: until the bell has rung since `ticket`, at most until `deadline`. With
  /// another reason than before the wait starts afresh, too.
  void wait(std::uint32_t ticket, For reason, base::Clock::time_point deadline);

 private:
  bool is_slow_transfer(For reason) const;
  base::Clock::duration next_sleep(For reason) const;

  base::Doorbell& bell_;
  const base::Doorbell::Listener who_;
  const bool crowded_;
  bool waiting_ = false;
  bool slept_ = false;
  int yields_ = 0;
  For reason_ = For::doorbell;
  base::Clock::time_point since_;
  base::Clock::duration waited_{};
  base::Clock::duration usual_transfer_{};  ///< how long waits for a transfer took of late
};

}  // namespace tutti::runtime
