// This file ends an epoch and begins the next one.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "coordinator/coordinator.h"

namespace tutti::coordinator {

void Coordinator::handle(int from, const Escape& escape) {
  if (escape.epoch != epoch_ || mode_ != Mode::replaying) return;
  last_escape_ = fmt::format("rank {}: {}", from, escape.detail);
  stop();
}

/// Call this before the batch is added to the log. Every rank reported how many gates it had
/// entered when it had the batch's tensors. These tensors cannot depend on batches whose gates no
/// rank had entered then.
void Coordinator::record(const PlanBatch& batch) {
  std::vector<KeyId> completes;
  for (const PlanPart& part : batch.parts) {
    if (part.begin + part.count == keys_.signature(part.id).shape.count()) {
      completes.push_back(part.id);
    }
  }
  const RecordedBatch recorded{.batch = batch,
                               .priority = keys_[keys_.slot_of_id(batch.parts.front().id)].priority,
                               .waiting = log_.next_number() - log_.entered_by_any()};
  cycles_.add(recorded, completes, !planner_.has_started() && !keys_.has_started());
}

void Coordinator::consider_replay() {
  if (!planner_.empty() || joined_ > 0 || first_to_leave_ >= 0) return;
  if (epoch_ + 2 > max_epoch) return;
  std::optional<Cycle> cycle = cycles_.find();
  if (!cycle || !may_replay(*cycle)) return;
  replay_ = std::move(cycle);
  stop();
}

// If a rank has reported a key outside the cycle, the replay would end at once. If a key has failed
// for some ranks but not yet for all, the ranks have no common round for it.
bool Coordinator::may_replay(const Cycle& cycle) const {
  std::vector<bool> served(keys_.size());
  for (const RecordedBatch& recorded : cycle.batches) {
    for (const PlanPart& part : recorded.batch.parts) served[keys_.slot_of_id(part.id)] = true;
  }
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    const Gathering& ranks = keys_[slot].ranks;
    if (served[slot] ? ranks.has_tombstones() : ranks.count() > 0) return false;
  }
  return true;
}

void Coordinator::stop() {
  base::check(first_to_leave_ < 0, "the epoch of the first departure is the last");
  was_replaying_ = mode_ == Mode::replaying;
  mode_ = Mode::stopping;
  for (Rank& r : ranks_) r.stopped = false;
  stop_since_ = now_;
  watch_from(now_, stop_notice_at_);
  send(everyone, Stop{epoch_});
}

void Coordinator::handle(int from, const Stopped& stopped) {
  base::check(stopped.epoch == epoch_ && mode_ == Mode::stopping && !rank(from).stopped,
              "a rank answers a stop once");
  rank(from).stopped = true;
  log_.note_entered(from, stopped.entered);
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.stopped; })) resume();
}

// Every rank entered the gates below K, so the data of these batches moves everywhere. No rank saw
// a gate from K on close, so it is as if these batches had never been planned.
void Coordinator::resume() {
  Resume resume{.epoch = epoch_ + 1, .closed = log_.entered_by_all(), .cycle = {}, .first = 0};
  if (was_replaying_) {
    end_replay();
  } else {
    roll_back();
    // A replay cannot begin before the first batch of the cycle, because the order was another one
    // there.
    if (resume.closed < replay_->first) {
      cycles_.note_replay_ended(replay_->uses, 0);
      replay_.reset();
    }
  }
  for (Slot slot = 0; slot < keys_.size(); ++slot) keys_.clear_votes(slot);
  bytes_unacknowledged_ = 0;
  log_.restart();
  cycles_.restart(0);
  epoch_ = resume.epoch;
  mode_ = replay_ ? Mode::replaying : Mode::negotiating;
  if (replay_) {
    replay_from_ = (resume.closed - replay_->first) % replay_->batches.size();
    replay_->bring_forward(replay_from_);
    for (const RecordedBatch& recorded : replay_->batches) resume.cycle.push_back(recorded.batch);
    resume.first = replay_from_;
  }
  send(everyone, std::move(resume));
}

/// Sets each key back to its state after the last closed batch.
void Coordinator::roll_back() {
  for (const Planner::Waiting& waiting : planner_.waiting()) {
    const Slot slot = keys_.slot_of_id(waiting.id);
    keys_.go_to(slot, keys_[slot].ranks.round(), waiting.next);
  }
  planner_.clear();
  for (const PlanPart& part : log_.not_entered_by_all()) {
    keys_.go_to(keys_.slot_of_id(part.id), part.round, part.begin);
  }
}

/// Advances each key by the rounds that the ranks have replayed without a message.
void Coordinator::end_replay() {
  const std::vector<RecordedBatch>& batches = replay_->batches;
  const BatchNumber entered = log_.entered_by_all();
  const BatchNumber length = batches.size();
  for (BatchNumber i = entered - std::min(entered, length); i < entered; ++i) {
    const Round times = i / length + 1;  // the runs of this batch; i is its last run
    for (const PlanPart& part : batches[(replay_from_ + i) % length].batch.parts) {
      const Slot slot = keys_.slot_of_id(part.id);
      const std::uint64_t end = part.begin + part.count;
      const bool last = end == keys_.signature(part.id).shape.count();
      keys_.go_to(slot, keys_[slot].ranks.round() + (last ? times : 0), last ? 0 : end);
    }
  }
  cycles_.note_replay_ended(replay_->uses, entered * replay_->uses / length);
  replay_.reset();
}

}  // namespace tutti::coordinator
