// The worker's thread: the messages that it receives, and its end.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "ps/worker/courier.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// The scheduler may take this long to say which process was lost.
constexpr Clock::duration cause_is_heard = std::chrono::seconds(2);
/// The interval between two looks while it calls a server that is away.
constexpr Clock::duration call_is_looked_at = std::chrono::milliseconds(20);

std::exception_ptr exception_of(const Failure& failure) {
  return std::make_exception_ptr(
      Error(failure.code, failure.text, {.key = {}, .ranks = failure.ranks}));
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void Courier::hear_scheduler(const FromScheduler& message) {
  if (const auto* const located = std::get_if<Located>(&message)) {
    for (const Placement& one : located->placements) place(one);
    all_are_placed_ = all_are_placed_ || located->all;
  } else if (const auto* const over = std::get_if<BarrierRelease>(&message)) {
    finish(barrier_, over->failure ? exception_of(*over->failure) : nullptr);
  } else if (const auto* const lost = std::get_if<Lost>(&message)) {
    on_lost(*lost);
  } else if (const auto* const away = std::get_if<Away>(&message)) {
    on_away(*away);
  } else if (const auto* const returned = std::get_if<Returned>(&message)) {
    on_returned(*returned);
  } else if (const auto* const refused = std::get_if<Refused>(&message)) {
    throw_failure(refused->failure);
  } else if (std::holds_alternative<End>(message)) {
    over_ = true;
  }
}

void Courier::place(const Placement& placement) {
  check_servers(placement, static_cast<int>(servers_.size()));
  placed_[placement.key] = placement.places;
}

/// A lost worker ends a synchronous store. In an asynchronous store the servers fail the calls that
/// need it.
void Courier::on_lost(const Lost& lost) {
  ++worker_.lost_nodes_;
  if (finished_) return;
  const Failure failure = failure_of(lost);
  job_is_lost_ = lost.role != Role::worker || !asynchronous_;
  if (job_is_lost_) throw_failure(failure);
  base::log().warn("{}; the others go on", failure.text);
}

void Courier::hear(std::size_t server) {
  ConnectionToServer& link = *servers_[server];
  const auto ended = link.receive([&](const Answer& answer) { take(server, answer); });
  // Once this worker has finished, servers may end at any time.
  if (!ended || finished_ || broken_) return;
  if (link.keeps()) return wait_for(server, fmt::format("its connection ended: {}", *ended));
  broken_ = {fmt::format("server {} is lost: its connection to worker {} ended: {}", server, rank_,
                         *ended),
             Clock::now() + cause_is_heard};
}

void Courier::take(std::size_t server, const Answer& answer) {
  if (answer.sequence == 0 && answer.failure) {
    Failure failure = *answer.failure;
    failure.text = fmt::format("server {} refuses this worker: {}", server, failure.text);
    throw_failure(failure);
  }
  // A loss ends a synchronous store, and a server may say so before the scheduler does.
  if (answer.failure && answer.failure->code == ErrorCode::peer_lost && !asynchronous_) {
    loss_is_known_ = true;
    if (const auto call = requests_->awaiting(server, answer)) worker_.note_ended(call);
  }
  requests_->take(server, answer);
}

/// This worker leaves only when all servers know it. A server that is started again learns it from
/// its journal. If a server has told of a loss, calls have failed that this worker still needed.
/// Then it has not finished, even if no call is left.
void Courier::finish_leaving() {
  const auto knows_all = [](const auto& server) { return server->is_acknowledged(); };
  if (!leaving_.completion || finished_ || loss_is_known_ || !requests_->empty()) return;
  if (!std::ranges::all_of(servers_, knows_all)) return;
  finished_ = true;
  scheduler_.send(Finished{});
}

Clock::time_point Courier::wake_up_by() const {
  if (has_more_to_send_) return Clock::now();
  auto by = scheduler_.next_beat();
  if (broken_) by = std::min(by, broken_->until);
  for (const auto& [server, absent] : absent_) {
    by = std::min(by, absent.call ? Clock::now() + call_is_looked_at : absent.due);
  }
  by = std::min(by, scheduler_.due().value_or(by));
  by = std::min(by, requests_->window().due().value_or(by));
  // `look` does the same.
  if (absent_.empty()) by = std::min(by, requests_->due().value_or(by));
  for (const auto& server : servers_) by = std::min(by, server->due().value_or(by));
  return by;
}

void Courier::look(Clock::time_point now) {
  if (broken_ && !finished_ && now >= broken_->until) {
    throw_failure({ErrorCode::peer_lost, broken_->what, {}});
  }
  call_absent(now);
  // As long as a server is away, no call is late.
  if (absent_.empty()) {
    requests_->look(now);
    look_at_queue(now);
  }
  requests_->window().look(now);
  look(barrier_, now);
  look(leaving_, now);
}

void Courier::look(Meeting& meeting, Clock::time_point now) const {
  const Clock::duration waited = now - meeting.begun;
  if (!meeting.completion || waited < meeting.report_after) return;
  meeting.report_after = 2 * waited;
  base::log().warn("worker {} has waited {:.0f} s in {}: the other workers have not come to it",
                   rank_, std::chrono::duration<double>(waited).count(),
                   meeting.completion->what());
}

void Courier::finish(Meeting& meeting, const std::exception_ptr& failure) {
  if (const auto completion = std::exchange(meeting.completion, nullptr)) {
    completion->finish(failure);
  }
}

/// The same failure, with a list of the calls that it ends.
std::exception_ptr Courier::with_calls(const std::exception_ptr& failure) const {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::aborted) return failure;
    return std::make_exception_ptr(base::reworded(
        error, fmt::format("{}; {} on worker {}", error.what(), under_way(), rank_)));
  } catch (...) {
    return failure;
  }
}

/// Comes before the calls fail. If a call tells the program of the end, the program need not hear
/// of it again.
void Courier::note_ended() const {
  for (const auto& call : requests_->under_way()) worker_.note_ended(call);
  for (const WorkItem& submission : queue_) {
    std::visit([&](const auto& one) { worker_.note_ended(one.completion); }, submission);
  }
  if (barrier_.completion) worker_.note_ended(barrier_.completion);
}

/// Ends every call, and tells the scheduler that this worker needs nobody any more. If the others
/// do not know why, it tells them.
void Courier::end_with(const std::exception_ptr& cause) noexcept {
  const std::exception_ptr failure = with_calls(cause);
  if (!over_) base::log().error("{}", text_of(failure));
  for (WorkItem& submission : worker_.end_with(failure)) queue_.push_back(std::move(submission));
  note_ended();
  requests_->fail_all(failure);
  for (WorkItem& submission : std::exchange(queue_, {})) {
    if (const auto* const list = std::get_if<TaskList>(&submission)) {
      for (std::size_t i = 0; i < list->tasks.size(); ++i) list->completion->finish(failure);
    } else {
      std::visit([&](auto& one) { one.completion->finish(failure); }, submission);
    }
  }
  finish(barrier_, failure);
  finish(leaving_, over_ ? nullptr : failure);
  servers_.clear();
  try {
    if (!finished_) {
      scheduler_.send(over_ || job_is_lost_ ? ToScheduler(Finished{})
                                            : Stopping{"it gave up: " + text_of(cause)});
    }
    scheduler_.close();
  } catch (const Error& error) {
    base::log().debug("the scheduler was not told of the end: {}", error.what());
  }
}

}  // namespace tutti::ps
