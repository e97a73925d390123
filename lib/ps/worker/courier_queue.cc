// The worker's thread: what holds up its queue, and for how long.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/wait_limits.h"
#include "ps/worker/courier.h"

namespace tutti::ps {
namespace {

using base::Clock;

std::string what_is(const WorkItem& submission) {
  return std::visit([](const auto& one) { return one.completion->what(); }, submission);
}

}  // namespace

void Courier::advance() {
  while (!queue_.empty()) {
    if (!std::visit([this](auto& one) { return send(one); }, queue_.front())) return hold_up();
    queue_.pop_front();
    held_up_.reset();
  }
}

/// A call that waits for the scheduler and then for servers may wait for the whole time limit for
/// each of them.
void Courier::hold_up() {
  const bool by_scheduler = has_sent_tasks() || std::holds_alternative<TaskList>(queue_.front());
  if (held_up_ && held_up_->by_scheduler == by_scheduler) return;
  held_up_ = {by_scheduler, Clock::now(), limits_.stall_report_after};
}

void Courier::postpone(Clock::duration time) {
  requests_->postpone(time);
  if (held_up_) held_up_->since = std::min(Clock::now(), held_up_->since + time);
}

void Courier::look_at_queue(Clock::time_point now) {
  // Messages that have come meanwhile may have ended the wait.
  advance();
  if (!held_up_) return;
  const Clock::duration waited = now - held_up_->since;
  if (waited >= held_up_->report_after) {
    held_up_->report_after = 2 * waited;
    base::log().warn("{} has waited {:.0f} s for {}", what_is(queue_.front()),
                     base::in_seconds(waited), awaited_by_queue());
  }
  if (waited >= limits_.timeout) give_up_waiting();
}

/// Describes the wait: "server 0 to take 7 pieces of earlier calls".
std::string Courier::awaited_by_queue() const {
  if (held_up_->by_scheduler) return "the scheduler to say where values are";
  std::vector<std::string> slow;
  for (std::size_t server = 0; server < outboxes_.size(); ++server) {
    const std::size_t unsent = outboxes_[server].size();
    if (unsent > 0) slow.push_back(fmt::format("server {} to take {} pieces", server, unsent));
  }
  return fmt::format("{} of earlier calls, which perhaps not every worker has made",
                     fmt::join(slow, " and "));
}

std::string Courier::under_way() const {
  if (barrier_.completion) return "a barrier was under way";
  if (held_up_ && requests_->empty()) return what_is(queue_.front()) + " was under way";
  return requests_->describe();
}

/// Without the scheduler's answer nothing more can be sent, not even a withdrawal of a push, so
/// this ends the worker. A setting that waits for servers follows the calls before it, which end by
/// themselves. Only a survey concerns no other worker, so it fails at once.
void Courier::give_up_waiting() {
  WorkItem& front = queue_.front();
  const std::string text =
      fmt::format("{} was not sent within {}: it waited for {}", what_is(front),
                  base::key_limit(limits_.timeout), awaited_by_queue());
  if (held_up_->by_scheduler) throw_failure({ErrorCode::timeout, text, {}});
  if (!std::holds_alternative<Survey>(front)) return;
  const WorkItem given_up = std::move(front);
  queue_.pop_front();
  held_up_.reset();
  const auto failure = std::make_exception_ptr(Error(ErrorCode::timeout, text));
  std::visit([&](const auto& one) { one.completion->finish(failure); }, given_up);
}

}  // namespace tutti::ps
