#include "runtime/waiter.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

namespace tutti::runtime {
namespace {

using namespace std::chrono_literals;

// A futex wake-up costs about as much as this. Longer spinning only wastes processor time.
constexpr auto spin_time = 20us;
// If no other thread wants the processor, yielding costs little. Ranks that sleep too soon make
// each other wait for wake-ups. Four ranks on two processors took 25 us for 4 bytes when they slept
// after eight yields, and otherwise 6 to 9 us.
constexpr int least_yields = 8;
constexpr auto yield_time = 50us;
// A gate whose other ranks are late is polled less and less often. Up to 10 ms the poll comes at
// most an eighth of the wait too late, and then a sixty-fourth, up to 40 ms. A poll costs 50 to 100
// us, so a hundred polls a second would cost one per cent of a core.
constexpr auto gate_usual_sleep = 10ms;
constexpr auto gate_longest_sleep = 40ms;
// A transfer keeps the network busy. If nothing arrives for long, the network is slow or the other
// rank does something else.
constexpr auto transfer_poll_time = 100us;
constexpr auto transfer_longest_sleep = 1ms;

base::Clock::duration yields_for(Waiter::For reason) {
  return reason == Waiter::For::transfer ? transfer_poll_time : yield_time;
}

base::Clock::duration longest_sleep(Waiter::For reason, base::Clock::duration waited) {
  switch (reason) {
    case Waiter::For::gate:
      return std::clamp<base::Clock::duration>(waited / 64, gate_usual_sleep, gate_longest_sleep);
    case Waiter::For::transfer:
      return transfer_longest_sleep;
    case Waiter::For::doorbell:
      break;
  }
  return base::Clock::duration::max();
}

}  // namespace

// The clock is not read here. Reading it costs as much as a spin, and only the end of a sleep needs
// the time.
void Waiter::reset() {
  const bool needs_time = waiting_ && slept_ && reason_ == For::transfer;
  reset(needs_time ? base::Clock::now() : since_);
}

void Waiter::reset(base::Clock::time_point now) {
  if (!waiting_) return;
  waiting_ = false;
  if (reason_ != For::transfer) return;
  const auto took = slept_ ? now - since_ : waited_;
  usual_transfer_ += (took - usual_transfer_) / 4;
}

bool Waiter::is_slow_transfer(For reason) const {
  return reason == For::transfer && usual_transfer_ > transfer_poll_time;
}

base::Clock::duration Waiter::next_sleep(For reason) const {
  auto sleep = waited_ / 8;
  if (is_slow_transfer(reason)) sleep = std::max(sleep, usual_transfer_ / 8);
  return std::min(sleep, longest_sleep(reason, waited_));
}

std::string Waiter::policy(bool crowded) {
  const std::string spin = crowded ? "" : fmt::format("spins {} us, ", spin_time.count());
  return fmt::format("{}yields until {} us have passed, then sleeps", spin, yield_time.count());
}

Waiter::Step Waiter::next(For reason, base::Clock::time_point now) {
  if (!waiting_ || reason != reason_) {
    waiting_ = true;
    slept_ = false;
    yields_ = 0;
    since_ = now;
  }
  reason_ = reason;
  waited_ = now - since_;
  if (!is_slow_transfer(reason)) {
    if (!crowded_ && reason == For::doorbell && waited_ < spin_time) return Step::spin;
    if (yields_ < least_yields || waited_ < yields_for(reason)) {
      ++yields_;
      return Step::yield;
    }
  }
  slept_ = true;
  return Step::sleep;
}

void Waiter::wait(std::uint32_t ticket, For reason, base::Clock::time_point deadline) {
  const auto now = base::Clock::now();
  switch (next(reason, now)) {
    case Step::spin:
      break;
    case Step::yield:
      ::sched_yield();
      break;
    case Step::sleep:
      if (reason != For::doorbell) deadline = std::min(deadline, now + next_sleep(reason));
      bell_.wait(ticket, deadline, who_);
  }
}

}  // namespace tutti::runtime
