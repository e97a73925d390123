// How calls end: each by itself, or all of them when the store does.
#include <utility>

#include "runtime/executor.h"

namespace tutti::runtime {

void Executor::finish(const CallTable::Entry& entry, const std::exception_ptr& error) {
  if (!error) tally_.count(entry.call->signature);
  // Cleared before the call is done, for from then on the store must hold no tensor of the
  // caller's.
  entry.call->ins.clear();
  entry.call->outs.clear();
  settle(entry.list, error);
}

void Executor::settle(const std::shared_ptr<CallList>& list, const std::exception_ptr& error) {
  if (list->completion->settle(error)) callbacks_.emplace_back(list, &*list->completion);
}

void Executor::settle(const std::shared_ptr<base::Completion>& completion,
                      const std::exception_ptr& error) {
  if (completion->settle(error)) callbacks_.push_back(completion);
}

void Executor::settle(const Submission& submission, const std::exception_ptr& error) {
  if (const auto* const list = std::get_if<std::shared_ptr<CallList>>(&submission)) {
    for (std::size_t i = (*list)->begun; i < (*list)->calls.size(); ++i) {
      settle(*list, error);
    }
    return;
  }
  // A barrier, join or departure that has begun has moved its completion to the executor.
  const auto settle_meeting = [&](const auto& meeting) {
    if (meeting.completion) settle(meeting.completion, error);
  };
  if (const auto* const barrier = std::get_if<BarrierCall>(&submission)) settle_meeting(*barrier);
  if (const auto* const join = std::get_if<JoinCall>(&submission)) settle_meeting(*join);
  if (const auto* const depart = std::get_if<DepartCall>(&submission)) settle_meeting(*depart);
}

void Executor::fail_everything(const std::exception_ptr& error) {
  for (const Submission& submission : inbox_.die(error)) settle(submission, error);
  for (const Submission& submission : std::exchange(taken_, {})) settle(submission, error);
  running_.clear();
  moving_ = 0;
  const CallTable calls = std::exchange(calls_, {});
  for (const auto& entry : calls.in_order()) settle(entry.list, error);
  if (barrier_) settle(barrier_->completion, error);
  if (join_) settle(join_->completion, error);
  if (depart_) settle(depart_->completion, error);
  barrier_.reset();
  join_.reset();
  depart_.reset();
  finished_ = true;
}

}  // namespace tutti::runtime
