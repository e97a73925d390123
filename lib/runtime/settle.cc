// In this file calls end: one by one, or all together when the store ends.
#include <utility>

#include "base/keep.h"
#include "base/log.h"
#include "runtime/executor.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// The time for which a failing store waits for its last copies from and to a GPU.
constexpr auto longest_last_copies = std::chrono::seconds(2);

}  // namespace

void Due::run() {
  const base::CallbackScope scope;
  if (call != nullptr) {
    call->drop_tensors();
    if (!completion->settle(error)) return;
  }
  completion->call_back();
}

void Executor::finish(const CallTable::Entry& entry, const std::exception_ptr& error) {
  if (!error) tally_.count(entry.call->signature);
  end(entry.list, *entry.call, error);
}

// Releases the tensors before the call is done, because afterwards the store must hold no tensor of
// the caller.
void Executor::end(const std::shared_ptr<CallList>& list, TensorCall& call,
                   const std::exception_ptr& error) {
  end(std::shared_ptr<base::Completion>(list, &*list->completion), call, error);
}

void Executor::end(const std::shared_ptr<base::Completion>& completion, TensorCall& call,
                   const std::exception_ptr& error) {
  // This thread holds the progress lock. It may be a user thread that holds locks of its own.
  if (call.has_foreign_deleter()) {
    dues_.push_back({completion, &call, error});
    return;
  }
  call.drop_tensors();
  settle(completion, error);
}

void Executor::settle(const std::shared_ptr<base::Completion>& completion,
                      const std::exception_ptr& error) {
  if (completion->settle(error)) dues_.push_back({.completion = completion, .error = {}});
}

void Executor::settle(const Submission& submission, const std::exception_ptr& error) {
  if (const auto* const list = std::get_if<std::shared_ptr<CallList>>(&submission)) {
    for (std::size_t i = (*list)->begun; i < (*list)->calls.size(); ++i) {
      end(*list, (*list)->calls[i], error);
    }
    return;
  }
  if (const auto* const call = std::get_if<std::shared_ptr<PeerCall>>(&submission)) {
    return end(*call, error);
  }
  // A join or a departure that has begun has moved its completion to the executor.
  const auto settle_meeting = [&](const auto& meeting) {
    if (meeting.completion) settle(meeting.completion, error);
  };
  if (const auto* const join = std::get_if<JoinCall>(&submission)) settle_meeting(*join);
  if (const auto* const depart = std::get_if<DepartCall>(&submission)) settle_meeting(*depart);
}

void Executor::drain_device() {
  try {
    if (device_.drain(base::Clock::now() + longest_last_copies, is_lost())) return;
    base::log().error(
        "the GPU may still read or write tensors of failed calls after {} s; the store keeps those "
        "that it shares until the process ends, and the program must keep its own",
        longest_last_copies.count());
    keep_tensors_for_good();
  } catch (const std::exception& error) {
    // A device that has failed makes no copies any more.
    base::log().debug("the copies of a GPU that failed: {}", error.what());
  }
}

void Executor::keep_tensors_for_good() {
  calls_.for_each([](const CallTable::Entry& entry) {
    if (entry.call->signature.device == Device::Kind::cpu) return;
    base::keep_for_good(std::make_shared<TensorCall>(*entry.call));
  });
}

void Executor::fail_everything(const std::exception_ptr& error) {
  drain_device();
  const std::vector<Submission> waiting = inbox_.die(error);
  const bool has_calls = !calls_.empty() || !peers_.messenger().empty();
  if (!waiting.empty() || !taken_.empty() || has_calls || join_) {
    inbox_.note_told();
  }
  for (const Submission& submission : waiting) settle(submission, error);
  for (const Submission& submission : std::exchange(taken_, {})) settle(submission, error);
  running_.clear();
  moving_ = 0;
  const CallTable calls = std::exchange(calls_, {});
  for (const auto& entry : calls.in_order()) end(entry.list, *entry.call, error);
  end_peer_calls(error);
  if (join_) settle(join_->completion, error);
  if (depart_) settle(depart_->completion, error);
  join_.reset();
  depart_.reset();
  finished_ = true;
}

}  // namespace tutti::runtime
