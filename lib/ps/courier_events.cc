// The worker's thread: what it hears, and how it ends.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "ps/courier.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// How long the scheduler may take to say who was lost.
constexpr Clock::duration cause_is_heard = std::chrono::seconds(2);

std::exception_ptr exception_of(const Failure& failure) {
  return std::make_exception_ptr(
      Error(failure.code, failure.text, {.key = {}, .ranks = failure.ranks}));
}

}  // namespace

void Courier::hear_scheduler(const FromScheduler& message) {
  if (const auto* const located = std::get_if<Located>(&message)) {
    for (const Placement& one : located->placements) placed_[one.key] = one.servers;
    all_are_placed_ = all_are_placed_ || located->all;
  } else if (const auto* const over = std::get_if<BarrierOver>(&message)) {
    finish(barrier_, over->failure ? exception_of(*over->failure) : nullptr);
  } else if (const auto* const lost = std::get_if<Lost>(&message)) {
    on_lost(*lost);
  } else if (std::holds_alternative<End>(message)) {
    over_ = true;
  }
}

/// A lost worker ends a synchronous store. In an asynchronous one the servers fail what needs it.
void Courier::on_lost(const Lost& lost) {
  ++worker_.lost_nodes_;
  if (finished_) return;
  const Failure failure = failure_of(lost);
  if (lost.role != Role::worker || !asynchronous_) throw_failure(failure);
  base::log().warn("{}; the others go on", failure.text);
}

void Courier::hear(std::size_t server) {
  const auto ended =
      servers_[server]->receive([&](const Answer& answer) { requests_->take(server, answer); });
  // Once this worker has finished, servers end as they like.
  if (!ended || finished_ || broken_) return;
  broken_ = {fmt::format("server {} is lost: its connection to worker {} ended: {}", server, rank_,
                         *ended),
             Clock::now() + cause_is_heard};
}

void Courier::finish_leaving() {
  if (!leaving_.completion || finished_ || !requests_->empty()) return;
  finished_ = true;
  scheduler_.send(Finished{});
}

Clock::time_point Courier::wake_up_by() const {
  if (has_more_to_send_) return Clock::now();
  const auto beat = scheduler_.next_beat();
  return broken_ ? std::min(beat, broken_->until) : beat;
}

void Courier::look(Clock::time_point now) {
  if (broken_ && !finished_ && now >= broken_->until) {
    throw_failure({ErrorCode::peer_lost, broken_->what, {}});
  }
  requests_->look(now);
  look(barrier_, now);
  look(leaving_, now);
}

void Courier::look(Meeting& meeting, Clock::time_point now) const {
  if (!meeting.completion || meeting.reported) return;
  if (now - meeting.begun < limits_.stall_report_after) return;
  meeting.reported = true;
  base::log().warn("worker {} has waited long in {}: the other workers have not come to it", rank_,
                   meeting.completion->what());
}

void Courier::finish(Meeting& meeting, const std::exception_ptr& failure) {
  if (const auto completion = std::exchange(meeting.completion, nullptr)) {
    completion->finish(failure);
  }
}

/// Ends every call, and tells the scheduler that this worker needs nobody any more.
void Courier::end_with(const std::exception_ptr& failure) noexcept {
  if (!over_) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      base::log().error("{}", error.what());
    }
  }
  for (Submission& submission : worker_.end_with(failure)) queue_.push_back(std::move(submission));
  requests_->fail_all(failure);
  for (Submission& submission : std::exchange(queue_, {})) {
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
    if (!finished_) scheduler_.send(Finished{});
    scheduler_.close();
  } catch (const Error& error) {
    base::log().debug("the scheduler was not told of the end: {}", error.what());
  }
}

}  // namespace tutti::ps
