#pragma once
#include <atomic>
#include <cstdint>

#include "base/cache_line.h"
#include "base/clock.h"

namespace tutti::base {

/// A doorbell: a futex in shared memory. One process listens and any process may ring. All zeros is
/// a valid initial state, so it may lie in a new mapping.
///
/// The listener: `s = ticket(); if (nothing to do) wait(s, deadline);` — a ring after `ticket()` is
/// never missed. Ringing an awake listener costs one atomic addition and no system call.
///
/// Two threads of the listening process may take turns. A ring wakes the threads that are on duty,
/// and `wait` sets its thread on duty while it sleeps. The thread that takes over sets the other
/// off duty, so that rings let it sleep, and sets it on duty again afterwards.
struct alignas(cache_line) Doorbell {
  enum Listener : std::uint32_t { owner = 1, deputy = 2 };

  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> on_duty{0};  ///< the listeners that a ring must wake

  void ring();
  std::uint32_t ticket() const { return rings.load(std::memory_order_acquire); }
  /// Blocks until the bell has rung since `seen`, or until `deadline`. False: the deadline passed.
  bool wait(std::uint32_t seen, Clock::time_point deadline, Listener who = owner);

  void set_on_duty(Listener who) { on_duty.fetch_or(who, std::memory_order_seq_cst); }
  void set_off_duty(Listener who) { on_duty.fetch_and(~std::uint32_t{who}); }
  /// As `wait`, but does not set the thread on duty: rings wake it only while another thread has
  /// done so. Returns at once if the bell has rung since `seen`.
  bool doze(std::uint32_t seen, Clock::time_point deadline, Listener who = owner);
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace tutti::base
