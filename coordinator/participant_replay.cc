// In this file a participant repeats the recorded cycle by itself, or asks to end the replay.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "coordinator/participant.h"
#include "coordinator/text.h"

namespace tutti::coordinator {
namespace {

/// A call may wait this long for its turn if no user thread is known to wait for it. This is longer
/// than a thread waits for a processor, and far shorter than a step.
///
/// Without this limit a replay could be slow for ever. While the first steps are recorded, a
/// program may submit its gradients only when all are computed, urgent ones first. Later it may
/// submit each gradient as soon as it is computed. In the recorded order nothing would then move
/// before the last gradient.
constexpr Time least_patience = std::chrono::milliseconds(10);

}  // namespace

using base::check;

void Participant::begin_replay(const Resume& resume) {
  cycle_ = resume.cycle;
  if (cycle_.empty()) return;
  check(resume.first < cycle_.size(), "a replay begins inside its cycle");
  cursor_ = resume.first;
  ready_parts_ = 0;
  in_cycle_.assign(ids_.size(), false);
  for (const PlanBatch& batch : cycle_) {
    check(!batch.parts.empty(), "a batch carries something");
    for (const PlanPart& part : batch.parts) {
      known(part.id);
      in_cycle_[part.id] = true;
    }
  }
  deviation_.reset();
  waits_.clear();
  impatient_at_.reset();
  for (const Slot slot : std::exchange(unreported_, {})) await_turn(slot);
}

/// Notes a call in flight that the replay must serve.
void Participant::await_turn(Slot slot) {
  const KeyUse& use = keys_[slot];
  const CallState& call = *use.call;
  if (!call.agreed || *call.agreed >= in_cycle_.size() || !in_cycle_[*call.agreed]) {
    if (!deviation_) deviation_ = slot;
  }
  if (call.waited_for) waits_.push_back({slot, call.round});
  const Time due = patience_of(use);
  impatient_at_ = impatient_at_ ? std::min(*impatient_at_, due) : due;
}

Time Participant::patience_of(const KeyUse& use) const {
  return use.call->submitted +
         std::min(std::max(least_patience, 2 * use.usual_wait), settings_.key_timeout);
}

void Participant::replay() {
  while (may_enter() && is_next_ready()) {
    const PlanBatch& next = cycle_[cursor_];
    cursor_ = cursor_ + 1 == cycle_.size() ? 0 : cursor_ + 1;
    ready_parts_ = 0;
    enter(resolve(next, planned_++));
  }
  lacks_next_ = !is_next_ready();
  if (deviation_) {
    escape(EscapeReason::deviation, named(keys_[*deviation_].key) + " is not in the cycle");
  } else if (join_.wanted || depart_.wanted) {
    escape(EscapeReason::request, join_.wanted ? "join" : "depart");
  } else if (lacks_next_) {
    escape_if_stuck();
  }
}

// A part that is ready stays ready until its batch is entered. So this looks at each part about
// once.
bool Participant::is_next_ready() {
  const std::vector<PlanPart>& parts = cycle_[cursor_].parts;
  for (; ready_parts_ < parts.size(); ++ready_parts_) {
    const PlanPart& part = parts[ready_parts_];
    const std::optional<CallState>& call = keys_[known(part.id).slot].call;
    if (!call || call->agreed != part.id || call->planned_entirely || call->next != part.begin) {
      return false;
    }
  }
  return true;
}

// The next batch lacks a call of this rank. The user may never make it, because a user thread waits
// for another call.
void Participant::escape_if_stuck() {
  forget_served_waits();
  if (!waits_.empty()) {
    const KeyUse& use = keys_[waits_.front().slot];
    escape(EscapeReason::waiting, named(use.key) + " is waited for out of the recorded order");
    return;
  }
  if (!impatient_at_ || now_ < *impatient_at_) return;
  impatient_at_.reset();
  const KeyUse* overdue = nullptr;  // the call that was submitted first
  for (const KeyUse& use : keys_) {
    if (!use.call || use.call->planned_entirely) continue;
    const Time due = patience_of(use);
    if (due > now_) {
      impatient_at_ = impatient_at_ ? std::min(*impatient_at_, due) : due;
    } else if (overdue == nullptr || use.call->sequence < overdue->call->sequence) {
      overdue = &use;
    }
  }
  if (overdue == nullptr) return;
  impatient_at_.reset();
  escape(EscapeReason::overdue, named(overdue->key) + " waits longer than when it was recorded");
}

void Participant::note_user_waits_elsewhere() {
  if (!is_asking_who_waits()) return;
  escape(EscapeReason::waiting, "a send or recv is waited for, which has no place in the order");
}

void Participant::forget_served_waits() {
  std::erase_if(waits_, [this](const Wait& wait) {
    const std::optional<CallState>& call = keys_[wait.slot].call;
    return !call || call->round != wait.round || call->planned_entirely;
  });
}

void Participant::escape(EscapeReason reason, const std::string& detail) {
  halted_ = true;
  actions_.emplace_back(Send{Escape{epoch_, reason, detail}});
}

}  // namespace tutti::coordinator
