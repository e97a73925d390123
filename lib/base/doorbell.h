#pragma once
#include <atomic>
#include <cstdint>

#include "base/cache_line.h"
#include "base/clock.h"

namespace tutti::base {

/// A bell in shared memory that one process listens to and anybody may ring. All zeros is a valid
/// fresh bell, so it may lie in a new mapping; it works across processes.
///
/// The listener: `s = ticket(); if (nothing to do) wait(s, deadline);` — a ring after `ticket()`
/// is never missed. Ringing an awake listener costs one atomic addition, no system call.
///
/// Two threads of the process may take turns. A ring wakes those on duty; `wait` is on duty for as
/// long as it sleeps. Whoever takes over puts the other off duty though that sleeps on, and puts it
/// back on duty when it is gone.
struct alignas(cache_line) Doorbell {
  enum Listener : std::uint32_t { owner = 1, deputy = 2 };

  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> on_duty{0};  ///< Listeners a ring must wake

  void ring();
  std::uint32_t ticket() const { return rings.load(std::memory_order_acquire); }
  /// Blocks until the bell has rung since `seen`, or until `deadline`. False: the deadline passed.
  bool wait(std::uint32_t seen, Clock::time_point deadline, Listener who = owner);

  void set_on_duty(Listener who) { on_duty.fetch_or(who, std::memory_order_seq_cst); }
  void set_off_duty(Listener who) { on_duty.fetch_and(~std::uint32_t{who}); }
  /// As `wait`, but rings wake it only while somebody else has set it on duty. Returns at once when
  /// the bell has rung since `seen`.
  bool doze(std::uint32_t seen, Clock::time_point deadline, Listener who = owner);
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace tutti::base
