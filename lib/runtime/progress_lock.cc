#include "runtime/progress_lock.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/thread.h"

namespace tutti::runtime {
namespace {

/// While a user thread has the progress lock, the communication thread sleeps at most this long.
/// The user thread may leave it a deadline, which it then meets about in time.
constexpr auto longest_doze = std::chrono::milliseconds(100);
/// A user thread that released the progress lock less than this time ago has probably submitted,
/// and will wait next. It may need the processor on which this thread runs.
constexpr auto a_moment = std::chrono::microseconds(50);
constexpr int courtesy_yields = 4;
/// A thread that waits so soon after it has submitted will probably do so again. So after the next
/// submission it goes on looking, for as long as `longest_look_on`. That costs less than waking the
/// communication thread for the moment in between.
constexpr auto soon = std::chrono::microseconds(5);
constexpr auto longest_look_on = std::chrono::microseconds(20);
/// This bounds one sleep only, because visitors announce that they leave.
constexpr auto longest_farewell = std::chrono::seconds(1);

}  // namespace

using Listener = base::Doorbell::Listener;

class ProgressLock::Visitor {
 public:
  explicit Visitor(ProgressLock& lock) : progress_lock_(lock) { ++lock.visitors_; }
  ~Visitor() {
    if (--progress_lock_.visitors_ > 0 || !progress_lock_.closed_) return;
    const base::Lock lock(progress_lock_.turn_);
    progress_lock_.left_.notify_all();
  }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;
  bool welcome() const { return !progress_lock_.closed_; }

 private:
  ProgressLock& progress_lock_;
};

ProgressLock::ProgressLock(Executor& executor, base::Doorbell& bell, bool crowded)
    : bell_(bell),
      crowded_(crowded),
      any_thread_(executor.may_use_any_thread()),
      between_nodes_(executor.has_several_nodes()),
      executor_(executor) {}

void ProgressLock::run() {
  // This thread polls transfers between short sleeps. If it woke late, a link would be idle.
  base::sleep_precisely();
  {
    const base::Lock lock(turn_);
    executor_.note_own_thread();
  }
  Waiter waiter(bell_, crowded_);
  bool goes_on = true;
  while (goes_on) {
    const std::uint32_t ticket = bell_.ticket();
    // This comes after taking the ticket: if more code becomes due later, the bell rings.
    if (has_dues_) run_dues();
    if (!in_stride_) yield_to_user();
    if (taken_) {
      in_stride_ = false;
      const auto until = usual_wake(base::Clock::now());
      wakes_at_ = until.time_since_epoch().count();
      bell_.doze(ticket, until);
    } else {
      goes_on = own_turn(ticket, waiter);
    }
  }
  run_dues();
}

bool ProgressLock::own_turn(std::uint32_t ticket, Waiter& waiter) {
  // Another thread is in a pass, so it has the progress lock. If this thread queued for the mutex,
  // the threads would switch at each pass.
  if (!turn_.try_lock()) return true;
  const std::optional<Idle> idle = own_look(waiter);
  const bool goes_on = !executor_.is_finished();
  turn_.unlock();
  if (!idle || !goes_on) return goes_on;
  if (idle->visited && idle->rest.reason == Waiter::For::doorbell) {
    waiter.forget();
    bell_.wait(ticket, idle->rest.until);
  } else {
    waiter.wait(ticket, idle->rest.reason, idle->rest.until);
  }
  return true;
}

std::optional<ProgressLock::Idle> ProgressLock::own_look(Waiter& waiter) {
  if (executor_.is_finished()) return std::nullopt;
  if (taken_) {
    waiter.forget();
    return std::nullopt;
  }
  in_stride_ = executor_.pass();
  has_dues_ = executor_.has_dues();
  if (in_stride_) waiter.reset();
  if (in_stride_ || has_dues_) return std::nullopt;
  in_stride_ = executor_.is_busy();
  Idle idle{executor_.prepare_rest(), visited_.exchange(false)};
  if (idle.visited) {
    idle.rest.until = std::min(idle.rest.until, usual_wake(executor_.looked_at()));
  }
  // This is set under the mutex, so that no other thread can leave an earlier deadline before.
  wakes_at_ = idle.rest.until.time_since_epoch().count();
  return idle;
}

// Lets a user thread run. Two ranks with a processor each took 690 to 800 us for 4 MiB when both
// threads of a rank moved it in turns, and 640 to 680 us when one did. Between nodes this does
// nothing, because a link would be idle while a user thread computes.
void ProgressLock::yield_to_user() {
  if (between_nodes_) return;
  const base::Clock::time_point left_at{base::Clock::duration(let_go_at_)};
  if (base::Clock::now() > left_at + a_moment) return;
  for (int i = 0; i < courtesy_yields && !taken_; ++i) ::sched_yield();
}

// The time until which the thread sleeps. An idle store has no deadline, but the next call will
// have one. If this thread slept longer, the user thread would have to wake it.
base::Clock::time_point ProgressLock::usual_wake(base::Clock::time_point now) const {
  const base::Clock::time_point before{base::Clock::duration(wakes_at_)};
  return before > now ? std::min(before, now + longest_doze) : now + longest_doze;
}

void ProgressLock::run_dues() {
  {
    const base::Lock lock(turn_);
    executor_.take_dues(dues_);
    has_dues_ = false;
  }
  for (Due& due : dues_) {
    due.run();
    // A user thread that waits for the call may have looked before the call was done, and may sleep
    // now.
    if (due.call != nullptr) bell_.ring();
  }
  dues_.clear();
}

bool ProgressLock::try_take() {
  if (taken_.exchange(true)) return false;
  visited_ = true;
  bell_.set_off_duty(Listener::owner);
  return true;
}

void ProgressLock::release(const Handover& handover) {
  // The order matters. If the communication thread still sees the lock taken, it goes off duty
  // before this puts it on duty. And a thread that the bell wakes must find the lock free.
  let_go_at_ = handover.looked_at.time_since_epoch().count();
  taken_ = false;
  // If nothing is in flight, ranks may still come to gates that this rank has passed. They must not
  // wake the communication thread.
  bell_.set_on_duty(handover.idle ? Listener::idle_owner : Listener::owner);
  const bool due_before = handover.until.time_since_epoch().count() < wakes_at_;
  const bool must_go_on = handover.busy || handover.leftovers || due_before;
  if (must_go_on || is_behind(handover)) bell_.ring();
}

void ProgressLock::begin_pass(Handover& handover) const {
  handover.news = bell_.news_ticket();
  handover.ticket = bell_.ticket();
}

bool ProgressLock::is_behind(const Handover& handover) const {
  if (handover.idle) return bell_.news_ticket() != handover.news;
  return bell_.ticket() != handover.ticket;
}

void ProgressLock::serve_inbox() {
  const Visitor visitor(*this);
  if (!visitor.welcome()) return;
  // In a callback this thread submits more calls. The communication thread makes a pass for all of
  // them afterwards.
  if (!any_thread_ || base::Completion::is_in_callback() || !try_take()) return bell_.ring();
  release(accept());
}

void ProgressLock::wake(const base::Completion&) {
  const Visitor visitor(*this);
  if (visitor.welcome()) bell_.ring();
}

ProgressLock::Handover ProgressLock::accept() {
  Handover handover;
  begin_pass(handover);
  if (!turn_.try_lock()) return handover;
  if (executor_.may_accept()) {
    std::optional<base::Clock::time_point> since;
    bool goes_on = true;
    while (goes_on) {
      begin_pass(handover);
      goes_on = executor_.accept();
      handover.looked_at = executor_.looked_at();
      if (!since) since = handover.looked_at;
      goes_on |= expects_wait_ && executor_.has_open_batch() &&
                 handover.looked_at < *since + longest_look_on;
    }
    handover.idle = executor_.is_idle();
    // A call that has already ended needs no wait.
    expects_wait_ = expects_wait_ && handover.idle;
    handover.busy = executor_.is_busy() || executor_.has_dues() || executor_.is_finished();
  }
  handover.until = executor_.prepare_rest().until;
  turn_.unlock();
  return handover;
}

void ProgressLock::drive(const base::Completion& call, base::Clock::time_point deadline) {
  const Visitor visitor(*this);
  if (!visitor.welcome()) return;
  // The bell rings because the thread that moves the executor may sleep, and because replay may
  // need to know of this wait.
  if (!any_thread_ || !try_take()) return bell_.ring();
  const base::Clock::time_point left_at{base::Clock::duration(let_go_at_)};
  Waiter waiter(bell_, crowded_, Listener::deputy);
  Handover handover;
  while (!call.is_done() && handover.looked_at < deadline && !handover.takes_long) {
    const bool first = handover.looked_at == base::Clock::time_point();
    const std::optional<Executor::Rest> rest = look(handover);
    if (first) expects_wait_ = !crowded_ && handover.looked_at < left_at + soon;
    if (!rest) {
      waiter.reset();
    } else if (!call.is_done() && !handover.takes_long) {
      waiter.wait(handover.ticket, rest->reason, std::min(rest->until, deadline));
    }
  }
  // One more pass costs less than waking the other thread.
  const bool wants_look = handover.leftovers || is_behind(handover);
  if (wants_look && !handover.takes_long) look(handover);
  release(handover);
}

std::optional<Executor::Rest> ProgressLock::look(Handover& handover) {
  begin_pass(handover);
  const base::Lock lock(turn_);
  const bool moved = executor_.pass();
  const Executor::Rest rest = executor_.prepare_rest();
  handover.looked_at = executor_.looked_at();
  handover.idle = executor_.is_idle();
  handover.busy = executor_.is_busy() || executor_.has_dues() || executor_.is_finished();
  handover.leftovers = executor_.has_leftovers();
  handover.until = rest.until;
  handover.takes_long = executor_.has_long_transfer();
  if (executor_.has_dues() && !has_dues_.exchange(true)) {
    bell_.set_on_duty(Listener::owner);
    bell_.ring();
    bell_.set_off_duty(Listener::owner);
  }
  return moved ? std::nullopt : std::optional(rest);
}

void ProgressLock::close() {
  closed_ = true;
  base::Lock lock(turn_);
  while (visitors_ > 0) left_.wait_until(lock, base::Clock::now() + longest_farewell);
}

}  // namespace tutti::runtime
