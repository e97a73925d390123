#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/fd.h"

namespace tutti::net {

/// Wakes a thread that sleeps in epoll, as base::Doorbell wakes one that sleeps on a futex. Ringing
/// costs no system call while the thread is busy. It works across processes if `asleep` lies in
/// shared memory and the descriptor was passed on.
///
/// The listener: `arm(); look for work; sleep until the descriptor is readable; silence()`. Work
/// that is published after `arm()` is found by that look, or it ends the sleep.
class EpollBell {
 public:
  /// Throws `internal`.
  static base::Fd make_descriptor();

  EpollBell(base::Fd event, std::atomic<std::uint32_t>& asleep)
      : event_(std::move(event)), asleep_(&asleep) {}

  void ring() noexcept;
  void arm() { asleep_->store(1, std::memory_order_seq_cst); }
  void silence();
  const base::Fd& descriptor() const { return event_; }

 private:
  base::Fd event_;
  std::atomic<std::uint32_t>* asleep_;
};

}  // namespace tutti::net
