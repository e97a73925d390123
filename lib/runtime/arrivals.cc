// This part of the executor takes in calls, messages and the news of a lost rank.
#include <exception>
#include <utility>

#include "coordinator/wire.h"
#include "runtime/executor.h"
#include "tutti/error.h"

namespace tutti::runtime {

bool Executor::take_submissions() {
  inbox_.take(taken_);
  if (taken_.empty()) return false;
  for (Submission& submission : taken_) submit(submission);
  taken_.clear();
  return true;
}

void Executor::submit(Submission& submission) {
  if (const auto* const list = std::get_if<std::shared_ptr<CallList>>(&submission)) {
    submit(*list);
  } else if (auto* const join = std::get_if<JoinCall>(&submission)) {
    participant_.join();
    join_ = std::move(*join);
  } else if (const auto* const call = std::get_if<std::shared_ptr<PeerCall>>(&submission)) {
    peers_.submit(now(), *call);
  } else {
    depart_ = std::move(std::get<DepartCall>(submission));
    peers_.messenger().close(now());
    if (data_ != nullptr) flush_timer_.note_leaving(looked_at_);
  }
}

void Executor::submit(const std::shared_ptr<CallList>& list) {
  for (TensorCall& call : list->calls) {
    const coordinator::CallId id = calls_.add(list, call);
    ++list->begun;
    try {
      record_submission(*list, id, participant_.submit(id, call), call);
    } catch (const Error&) {
      const CallTable::Entry refused = calls_.take(id);
      inbox_.release({&refused.call, 1});
      finish(refused, std::current_exception());
    }
  }
}

bool Executor::take_mail() {
  bool any = false;
  while (!finished_ && control_.receive(mail_)) {
    const coordinator::ToRank message = coordinator::decode_to_rank(mail_);
    record_plan(message);
    participant_.receive(message);
    any = true;
  }
  return any;
}

bool Executor::take_loss() {
  if (loss_told_) return false;
  const auto loss = control_.lost_rank();
  if (!loss) return false;
  loss_told_ = true;
  // Rank 0 may have sent messages before it was lost, such as the reason for which it ended.
  take_mail();
  apply_actions();
  if (finished_) return true;
  participant_.note_lost(loss->rank, loss->reason);
  // The actions are carried out at once, so that the next submission finds that the store has
  // ended.
  apply_actions();
  return true;
}

}  // namespace tutti::runtime
