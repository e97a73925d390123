// In this file a participant passes gates and epochs, and sends messages to the coordinator.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "base/wait_limits.h"
#include "coordinator/participant.h"
#include "coordinator/text.h"

namespace tutti::coordinator {

using base::check;

void Participant::pump() {
  if (lost_ || left_ || halted_) return leave_if_done();
  if (!cycle_.empty()) {
    replay();
  } else {
    while (may_enter() && !queued_.empty()) {
      TrackedBatch batch = std::move(queued_.front());
      queued_.pop_front();
      enter(std::move(batch));
    }
    report();
    send_requests();
    say_drained();
  }
  leave_if_done();
}

bool Participant::may_enter() const {
  return open_.empty() || (open_.size() < settings_.most_open && open_.back().closed);
}

void Participant::enter(TrackedBatch batch) {
  batch.entered_at = now_;
  ++entered_;
  owes_acknowledgement_ |= batch.acknowledge;
  if (cycle_.empty()) {
    for (const PartOwner& owner : batch.owners) {
      KeyUse& use = keys_[owner.slot];
      if (use.call) use.usual_wait = now_ - use.call->submitted;
    }
  }
  LocalBatch told = spare_plans_.take();
  told = batch.local;
  actions_.emplace_back(Enter{std::move(told)});
  open_.push_back(std::move(batch));
  gate_notice_at_ = now_ + std::min(settings_.stall_report_after, settings_.key_timeout);
}

void Participant::report() {
  while (!unreported_.empty() || owes_acknowledgement_) report_some();
}

void Participant::report_some() {
  Report report{.epoch = epoch_, .entered = entered_, .ready = {}, .fresh = {}};
  const std::size_t count = std::min(unreported_.size(), max_report_calls);
  for (std::size_t i = 0; i < count; ++i) {
    const Slot slot = unreported_[i];
    const KeyUse& use = keys_[slot];
    const CallState& call = *use.call;
    const Time age = now_ - call.submitted;
    if (call.agreed) {
      report.ready.push_back({*call.agreed, call.priority, call.round, age});
    } else {
      report.fresh.push_back({use.key, call.signature, call.priority, call.round, age});
    }
  }
  unreported_.erase(unreported_.begin(), unreported_.begin() + static_cast<std::ptrdiff_t>(count));
  owes_acknowledgement_ = false;
  actions_.emplace_back(Send{std::move(report)});
}

// The requests are sent after the report, so that the coordinator has every call when it reads
// them.
void Participant::send_requests() {
  if (join_.wanted && !join_.sent) {
    join_.sent = true;
    actions_.emplace_back(Send{JoinAsked{epoch_}});
  }
  if (depart_.wanted && !depart_.sent) {
    depart_.sent = true;
    actions_.emplace_back(Send{DepartAsked{epoch_}});
  }
}

// All plans have come before Drain. The participant has entered all planned batches if none is
// open.
void Participant::say_drained() {
  if (!owes_drained_ || !open_.empty()) return;
  owes_drained_ = false;
  actions_.emplace_back(Send{Drained{epoch_}});
}

void Participant::leave_if_done() {
  if (!depart_.wanted || left_) return;
  if (!lost_ && !may_leave_) return;
  left_ = true;
  if (!lost_) actions_.emplace_back(Send{Left{epoch_}});
  actions_.emplace_back(DepartDone{});
}

void Participant::note_gate_closed(Epoch epoch, BatchNumber number) {
  if (open_.empty() || open_.back().closed) return;
  TrackedBatch& last = open_.back();
  if (last.local.epoch != epoch || last.local.number != number) return;
  last.closed = true;
  gate_notice_at_.reset();
}

void Participant::note_batch_done(Epoch epoch, BatchNumber number) {
  if (lost_) return;
  check(!open_.empty() && open_.front().closed && open_.front().local.epoch == epoch &&
            open_.front().local.number == number,
        "batches are done in order, behind closed gates");
  TrackedBatch batch = std::move(open_.front());
  open_.erase(open_.begin());
  for (std::size_t i = 0; i < batch.owners.size(); ++i) {
    if (batch.owners[i].last && batch.local.parts[i].call != 0) {
      finish(batch.owners[i].slot, std::nullopt);
    }
  }
  spare_batches_.add(std::move(batch));
}

void Participant::handle(const Stop& stop) {
  if (!is_current(stop.epoch)) return;
  halted_ = true;
  actions_.emplace_back(Send{Stopped{epoch_, entered_}});
}

void Participant::handle(const Resume& resume) {
  check(resume.epoch == epoch_ + 1 && halted_, "an epoch begins after the one before has stopped");
  check(resume.closed <= entered_, "a gate is closed only after this rank entered it");
  if (!open_.empty() && !open_.back().closed) {
    TrackedBatch& last = open_.back();
    if (last.local.number < resume.closed) {
      last.closed = true;
      actions_.emplace_back(CloseGate{last.local.epoch, last.local.number});
    }
  }
  while (!queued_.empty()) {
    withdraw(queued_.back());
    queued_.pop_back();
  }
  if (!open_.empty() && !open_.back().closed) {
    actions_.emplace_back(Withdraw{open_.back().local.epoch, open_.back().local.number});
    withdraw(open_.back());
    open_.pop_back();
  }
  gate_notice_at_.reset();
  epoch_ = resume.epoch;
  entered_ = planned_ = 0;
  halted_ = owes_acknowledgement_ = false;
  join_.sent = depart_.sent = false;
  unreported_ = unplanned();
  begin_replay(resume);
}

void Participant::tick(Time now) {
  now_ = now;
  if (!lost_ && gate_notice_at_ && now_ >= *gate_notice_at_) watch_gate();
}

// In a replay another rank may be late, or may need a tensor that the cycle does not have. All
// calls for a negotiated gate were there, so such a gate stays open only if another rank does not
// run.
void Participant::watch_gate() {
  const TrackedBatch& batch = open_.back();
  const Time waited = now_ - batch.entered_at;
  if (!cycle_.empty()) {
    gate_notice_at_.reset();
    if (!halted_) escape(EscapeReason::slow_gate, "a gate is open since " + seconds(waited));
    return;
  }
  const std::string what = fmt::format(
      "the gate of batch {}.{} (first key {}) is open since {}", batch.local.epoch,
      batch.local.number, name_of(keys_[batch.owners.front().slot].key), seconds(waited));
  if (waited >= settings_.key_timeout) {
    gate_notice_at_.reset();
    note_lost(rank_, fmt::format("{}, and the limit is {}: another rank is not running", what,
                                 base::key_limit(settings_.key_timeout)));
    return;
  }
  actions_.emplace_back(Notice{what + ": some rank that reported the key does not enter it"});
  gate_notice_at_ = std::min(now_ + waited, batch.entered_at + settings_.key_timeout);
}

std::optional<Time> Participant::next_tick() const {
  if (lost_ || left_) return std::nullopt;
  const bool impatient =
      !cycle_.empty() && !halted_ && lacks_next_ && to_plan_ > 0 && impatient_at_;
  if (!impatient || (gate_notice_at_ && *gate_notice_at_ < *impatient_at_)) return gate_notice_at_;
  return impatient_at_;
}

}  // namespace tutti::coordinator
