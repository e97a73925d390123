#include <algorithm>

#include "base/failure.h"
#include "base/mutex.h"
#include "runtime/executor.h"
#include "threads.h"

// The threads of an exploration are one thread of the system, whose levels these would be.
namespace tutti::base {
void LockOrder::enter(int /*level*/) {}
void LockOrder::leave(int /*level*/) {}
}  // namespace tutti::base

namespace tutti::runtime {
namespace {

constexpr auto flush_after = std::chrono::milliseconds(1);

test::Threads& threads() {
  return *test::Threads::current();
}

}  // namespace

void Due::run() {
  threads().step_at_leisure("runs the program's code");
  if (call != nullptr) completion->settle();
}

/// The beginning of everything that a thread does with it.
void Executor::begin() const {
  if (ended_) threads().fail("a thread uses the executor after its end");
}

bool Executor::has_done_all() const {
  return finished_calls_ == submitted_.size() && dues_.empty() &&
         (departed_ == nullptr || is_finished_) && flush_at_ == base::Clock::time_point::max();
}

bool Executor::pass() {
  begin();
  if (is_finished_) return false;
  bool moved = look_around();
  threads().step("goes on with its pass");
  bool advanced = look_at_gate();
  advanced |= move_data();
  if (advanced) apply_actions();
  moved |= advanced;
  if (!moved) moved = note_waits();
  return note(moved);
}

bool Executor::accept() {
  begin();
  if (is_finished_) return false;
  const bool arrived = look_around();
  threads().step("goes on with its short pass");
  bool moved = look_at_gate();
  const bool brief = done_ < entered_ && !submitted_[done_]->is_long;
  if (brief) moved |= move_data();
  if (moved) apply_actions();
  if (!moved) moved = note_waits();
  note(moved || arrived);
  return moved && !is_idle();
}

bool Executor::note(bool moved) {
  moved_ = moved;
  threads().step("ends its pass");
  return moved;
}

bool Executor::look_around() {
  looked_at_ = base::Clock::now();
  bool moved = false;
  if (looked_at_ >= flush_at_) {
    lateness_ = std::max(lateness_, looked_at_ - flush_at_);
    flush_at_ = base::Clock::time_point::max();
  }
  if (taken_ < submitted_.size()) {
    taken_ = submitted_.size();
    moved = true;
  }
  return apply_actions() || moved;
}

bool Executor::may_depart() const {
  return departed_ != nullptr && !is_finished_ && finished_calls_ == taken_;
}

bool Executor::may_enter() const {
  return entered_ == closed_ && entered_ < taken_ &&
         (!submitted_[entered_]->escapes || is_planned_);
}

bool Executor::apply_actions() {
  bool any = false;
  for (; has_actions(); any = true) {
    if (finished_calls_ < done_) {
      finish(submitted_[finished_calls_++]);
    } else if (may_enter()) {
      ++entered_;
      has_unseen_gate_ = true;
    } else {
      is_finished_ = true;
      departed_->settle();
    }
  }
  return any;
}

void Executor::finish(Call* call) {
  if (call->has_deleter) {
    dues_.push_back({call->completion, call});
  } else {
    call->completion->settle();
    if (call->has_callback) dues_.push_back({call->completion});
  }
}

bool Executor::look_at_gate() {
  has_unseen_gate_ = false;
  if (entered_ == closed_ || arrived_ <= closed_) return false;
  ++closed_;
  return true;
}

bool Executor::move_data() {
  bool moved = false;
  if (started_ == done_ && started_ < closed_) {
    ++started_;
    moved = true;
  }
  if (started_ == done_) return moved;
  if (submitted_[done_]->is_long && !std::exchange(half_done_, true)) return true;
  half_done_ = false;
  ++done_;
  if (submitted_[done_ - 1]->between_nodes) flush_at_ = looked_at_ + flush_after;
  return true;
}

bool Executor::is_busy() const {
  return started_ > done_ || closed_ > started_ || is_polling();
}

bool Executor::is_polling() const {
  return entered_ > closed_ && submitted_[closed_]->between_nodes;
}

bool Executor::has_long_transfer() const {
  return entered_ > done_ && submitted_[done_]->between_nodes && submitted_[done_]->is_long;
}

bool Executor::is_asking_who_waits() const {
  return entered_ < taken_ && submitted_[entered_]->escapes && !escaped_.is_done();
}

bool Executor::note_waits() {
  if (!is_asking_who_waits() || !submitted_[entered_]->completion->is_waited_for()) return false;
  escaped_.settle();
  return true;
}

Executor::Rest Executor::prepare_rest() {
  begin();
  Rest rest{.until = std::min(looked_at_ + std::chrono::hours(1), flush_at_)};
  if (is_polling()) rest.reason = Waiter::For::gate;
  return rest;
}

}  // namespace tutti::runtime
