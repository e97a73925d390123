#include "runtime/waiter.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace tutti::runtime {
namespace {

using namespace std::chrono_literals;

// A futex wake-up costs about as much as this; spinning longer only burns.
constexpr auto spin_time = 20us;
constexpr int yields_before_sleep = 8;
// A gate whose peer is late is looked at ever less often: at most an eighth late up to 10 ms, then
// a sixty-fourth up to 40 ms. A look costs 50 to 100 us, so that a hundred of them a second would
// cost a whole hundredth of a core.
constexpr auto gate_poll_time = 50us;
constexpr auto gate_usual_sleep = 10ms;
constexpr auto gate_longest_sleep = 40ms;
// A transfer keeps the network busy; a long silence means a peer that does something else.
constexpr auto transfer_poll_time = 500us;
constexpr auto transfer_longest_sleep = 1ms;
constexpr auto flush_longest_sleep = 100ms;

base::Clock::duration longest_sleep(Waiter::For reason, base::Clock::duration waited) {
  switch (reason) {
    case Waiter::For::gate:
      return std::clamp<base::Clock::duration>(waited / 64, gate_usual_sleep, gate_longest_sleep);
    case Waiter::For::transfer:
      return transfer_longest_sleep;
    case Waiter::For::flush:
      return flush_longest_sleep;
    case Waiter::For::doorbell:
      break;
  }
  return base::Clock::duration::max();
}

}  // namespace

void Waiter::wait(std::uint32_t ticket, For reason, base::Clock::time_point deadline) {
  const auto now = base::Clock::now();
  if (!waiting_) {
    waiting_ = true;
    yields_ = 0;
    since_ = now;
  }
  const auto waited = now - since_;
  if (!crowded_ && waited < spin_time) return;
  const bool polls = reason != For::doorbell;
  const auto poll_time = reason == For::transfer ? transfer_poll_time : gate_poll_time;
  if (yields_ < yields_before_sleep || (polls && waited < poll_time)) {
    ++yields_;
    ::sched_yield();
    return;
  }
  if (polls)
    deadline = std::min(deadline, now + std::min(waited / 8, longest_sleep(reason, waited)));
  bell_.wait(ticket, deadline, who_);
}

}  // namespace tutti::runtime
