#pragma once
#include <atomic>
#include <cstdint>

#include "base/cache_line.h"
#include "base/clock.h"

namespace tutti::base {

/// A doorbell: a futex in shared memory. One process listens, and any process may ring. All zeros
/// is a valid initial state, so it may lie in a new mapping.
///
/// The listener: `s = ticket(); if (nothing to do) wait(s, deadline);`. It never misses a ring
/// after `ticket()`. To ring an awake listener costs one atomic addition and no system call.
///
/// Two threads of the listening process may take turns. A ring wakes the threads that are on duty,
/// and `wait` sets its thread on duty while it sleeps. The thread that takes over sets the other
/// one off duty, so that rings let it sleep, and sets it on duty again afterwards.
///
/// `ring_for_data` tells that data of another process has moved. It wakes only listeners that wait
/// for such data. The owner of a process that waits for none is on duty as `idle_owner`, and sleeps
/// on.
struct alignas(cache_line) Doorbell {
  /// `idle_owner` is also the owner.
  enum Listener : std::uint32_t { owner = 1, deputy = 2, idle_owner = 4 };

  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> on_duty{0};  ///< the listeners that a ring must wake
  std::atomic<std::uint32_t> news{0};     ///< the calls of `ring`

  void ring();
  void ring_for_data();
  std::uint32_t ticket() const { return rings.load(std::memory_order_acquire); }
  /// A ticket for listeners that wait for no data. Only `ring` changes it.
  std::uint32_t news_ticket() const { return news.load(std::memory_order_seq_cst); }
  /// Blocks until the bell has rung since `seen`, or until `deadline`. Returns false if the
  /// deadline passed.
  bool wait(std::uint32_t seen, Clock::time_point deadline, Listener who = owner);

  void set_on_duty(Listener who) { on_duty.fetch_or(who, std::memory_order_seq_cst); }
  void set_off_duty(Listener who) { on_duty.fetch_and(~all_of(who)); }
  /// Does the same as `wait`, but does not set the thread on duty. So rings wake it only while
  /// another thread has set it on duty. Returns at once if the bell has rung since `seen`.
  bool doze(std::uint32_t seen, Clock::time_point deadline, Listener who = owner);

  /// All ways in which this thread may be on duty.
  static constexpr std::uint32_t all_of(Listener who) {
    return who == deputy ? std::uint32_t{deputy} : std::uint32_t{owner} | idle_owner;
  }
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace tutti::base
