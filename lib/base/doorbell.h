#pragma once
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace tutti::base {

/// A bell in shared memory that one thread listens to and anybody may ring. All zeros is a valid
/// fresh bell, so it may lie in a new mapping; it works across processes.
///
/// The listener: `s = ticket(); if (nothing to do) wait(s, deadline);` — a ring after `ticket()`
/// is never missed. Ringing an awake listener costs one atomic addition, no system call.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> asleep{0};

  void ring();
  std::uint32_t ticket() const { return rings.load(std::memory_order_acquire); }
  /// Blocks until the bell has rung since `seen`, or until `deadline`. False: the deadline passed.
  bool wait(std::uint32_t seen, Clock::time_point deadline);
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace tutti::base
