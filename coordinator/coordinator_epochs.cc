// Ending an epoch and beginning the next.
#include <algorithm>

#include "base/failure.h"
#include "coordinator/coordinator.h"

namespace tutti::coordinator {

void Coordinator::handle(int, const Escape& escape) {
  if (escape.epoch == epoch_ && mode_ == Mode::replaying) stop();
}

void Coordinator::stop() {
  mode_ = Mode::stopping;
  for (Rank& r : ranks_) r.stopped = false;
  stop_since_ = now_;
  stop_notice_at_ = now_ + settings_.stall_report_after;
  note(stop_notice_at_);
  send(everyone, Stop{epoch_});
}

void Coordinator::handle(int from, const Stopped& stopped) {
  base::check(stopped.epoch == epoch_ && mode_ == Mode::stopping && !rank(from).stopped,
              "a rank answers a stop once");
  rank(from).stopped = true;
  log_.entered(from, stopped.entered);
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.stopped; })) resume();
}

// Every rank entered the gates below K, so their data moves everywhere. Nobody saw a gate from K on
// close: those batches are as if never planned. What is not planned is reported again.
void Coordinator::resume() {
  const BatchNumber closed = log_.entered_by_all();
  for (const Planner::Waiting& waiting : planner_.waiting()) {
    const Slot slot = keys_.slot_of_id(waiting.id);
    keys_.go_to(slot, keys_[slot].ranks.round(), waiting.next);
  }
  planner_.clear();
  for (const PlanItem& item : log_.not_entered_by_all()) {
    keys_.go_to(keys_.slot_of_id(item.id), item.round, item.begin);
  }
  for (Slot slot = 0; slot < keys_.size(); ++slot) keys_.clear_votes(slot);
  barrier_.clear();
  bytes_unacknowledged_ = 0;
  log_.restart();
  ++epoch_;
  mode_ = Mode::negotiating;
  send(everyone, Resume{.epoch = epoch_, .closed = closed, .cycle = {}, .first = 0});
}

}  // namespace tutti::coordinator
