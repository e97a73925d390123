// The states of both sides as bytes. Unordered maps are left out, because they only index other
// members.
#include "coordinator/coordinator.h"
#include "coordinator/fingerprint_of.h"
#include "coordinator/participant.h"

namespace tutti::coordinator {
namespace {

void add_to(Fingerprint& to, const LocalBatch& batch) {
  to.add(batch.epoch).add(batch.number).add(batch.active_ranks).add(batch.parts.size());
  for (const LocalPart& part : batch.parts) to.add(part.call).add(part.begin).add(part.count);
}

}  // namespace

void Participant::fingerprint(Fingerprint& to) const {
  to.add(now_).add(epoch_).add(halted_).add(entered_).add(planned_).add(owes_acknowledgement_);
  to.add(queued_.size()).add(open_.size());
  for (const TrackedBatch& batch : queued_) add_to(to, batch.local);
  for (const TrackedBatch& batch : open_) {
    add_to(to, batch.local);
    to.add(batch.closed).add(batch.entered_at);
  }
  for (const KeyUse& use : keys_) {
    add_to(to, use.key);
    to.add(use.next_round).add(use.usual_wait).add(use.call.has_value());
    for (const KeyId id : use.ids) to.add(id);
    if (!use.call) continue;
    const CallState& call = *use.call;
    to.add(call.id).add(call.round).add(call.priority).add(call.submitted).add(call.next);
    to.add(call.planned_entirely).add(call.waited_for).add(call.agreed);
    add_to(to, call.signature);
  }
  for (const Slot slot : unreported_) to.add(slot);
  to.add(owes_drained_);
  to.add(cycle_.size()).add(cursor_).add(lacks_next_).add(deviation_).add(impatient_at_);
  for (const PlanBatch& batch : cycle_) add_to(to, batch);
  for (const Wait& wait : waits_) to.add(wait.slot).add(wait.round);
  for (const Request* request : {&join_, &depart_}) {
    to.add(request->wanted).add(request->sent);
  }
  to.add(may_leave_).add(left_).add(lost_.has_value()).add(gate_notice_at_);
}

void Coordinator::fingerprint(Fingerprint& to) const {
  to.add(now_).add(epoch_).add(mode_).add(joined_).add(last_joined_).add(first_to_leave_);
  to.add(draining_);
  for (const Rank& r : ranks_) {
    to.add(r.joined).add(r.stopped).add(r.leaving).add(r.drained).add(r.let_go).add(r.gone);
  }
  keys_.fingerprint(to);
  planner_.fingerprint(to);
  log_.fingerprint(to);
  cycles_.fingerprint(to);
  to.add(replay_from_).add(was_replaying_).add(replay_.has_value());
  if (replay_) {
    to.add(replay_->first);
    for (const RecordedBatch& recorded : replay_->batches) add_to(to, recorded.batch);
  }
  to.add(bytes_unacknowledged_).add(agreements_.size());
  to.add(join_waits_since_).add(join_notice_at_).add(stop_since_).add(stop_notice_at_);
  to.add(leave_waits_since_).add(leave_notice_at_).add(watch_at_);
}

}  // namespace tutti::coordinator
