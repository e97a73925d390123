// Join and departure: these concern ranks rather than keys.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "coordinator/coordinator.h"

namespace tutti::coordinator {

using base::check;

void Coordinator::handle(int from, const JoinAsked& asked) {
  if (!is_negotiating(asked.epoch)) return;
  check(!rank(from).joined, "a rank joins once at a time");
  rank(from).joined = true;
  last_joined_ = from;
  if (joined_++ == 0) watch_from(now_, join_notice_at_);
  join_waits_since_ = now_;
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    if (!keys_[slot].queued && is_complete(keys_[slot].ranks)) conclude(slot);
  }
  settle();
}

// The end of the join is sent after the last plan that counts joined ranks. When such a rank reads
// it, the rank stops contributing.
void Coordinator::settle_join() {
  if (joined_ == 0 || !planner_.empty()) return;
  if (joined_ == size_) {
    end_join(std::nullopt);
  } else if (first_to_leave_ >= 0 && !has_started_work()) {
    end_join(gone_failure("join"));
  }
}

void Coordinator::end_join(const std::optional<Failure>& failure) {
  for (int r = 0; r < size_; ++r) {
    if (rank(r).joined) send(r, JoinOver{epoch_, last_joined_, failure});
    rank(r).joined = false;
  }
  joined_ = 0;
  // In batches that are planned while ranks have joined, averages are divided by fewer ranks.
  cycles_.restart(log_.next_number());
}

void Coordinator::handle(int from, const DepartAsked& asked) {
  if (!is_negotiating(asked.epoch)) return;
  check(!rank(from).leaving, "a rank departs once");
  rank(from).leaving = true;
  leave_waits_since_ = now_;
  watch_from(now_, leave_notice_at_);
  if (first_to_leave_ < 0) {
    first_to_leave_ = from;
    abort_what_has_not_started();
  }
  settle();
}

// Every key needs every rank. So from the first departure on, only tensors that have started go on.
void Coordinator::abort_what_has_not_started() {
  for (const Planner::Waiting& waiting : planner_.waiting()) {
    if (waiting.started) continue;
    planner_.remove(waiting.id);
    const Slot slot = keys_.slot_of_id(waiting.id);
    fail(slot, gone_failure(key_name(slot)));
  }
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    const KeyState& state = keys_[slot];
    if (state.queued || state.start > 0 || state.ranks.count() == 0) continue;
    fail(slot, gone_failure(key_name(slot)));
  }
}

Failure Coordinator::gone_failure(const std::string& what) const {
  return {ErrorCode::aborted,
          fmt::format("{}: rank {} has left the store", what, first_to_leave_),
          {first_to_leave_}};
}

bool Coordinator::has_started_work() const {
  if (!planner_.empty()) return true;
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    if (keys_[slot].start > 0) return true;
  }
  return false;
}

// When a batch is done at its sender, MPI may still hold bytes of it, and sends them only while
// that rank calls MPI. So no rank leaves before all ranks have received everything.
void Coordinator::let_go() {
  if (first_to_leave_ < 0 || has_started_work()) return;
  if (!std::exchange(draining_, true)) send(everyone, Drain{epoch_});
  if (!undrained().empty()) return;
  for (int r = 0; r < size_; ++r) {
    if (!rank(r).leaving || rank(r).let_go || !may_go(r)) continue;
    rank(r).let_go = true;
    send(r, Departed{epoch_});
  }
}

std::vector<int> Coordinator::undrained() const {
  return ranks_that([](const Rank& r) { return !r.drained; });
}

void Coordinator::handle(int from, const Drained& drained) {
  check(drained.epoch == epoch_ && draining_ && !rank(from).drained,
        "a rank drains once, when it is asked to");
  rank(from).drained = true;
  let_go();
}

/// Rank 0 leaves last.
bool Coordinator::may_go(int r) const {
  return r != 0 || std::all_of(ranks_.begin() + 1, ranks_.end(),
                               [](const Rank& other) { return other.gone; });
}

void Coordinator::handle(int from, const Left&) {
  check(rank(from).let_go, "a rank leaves after it was let go");
  rank(from).gone = true;
  let_go();
}

void Coordinator::note_lost(int r, const std::string& reason) {
  if (mode_ == Mode::lost) return;
  if (rank(r).let_go) {
    rank(r).gone = true;
    let_go();
  } else {
    conclude_loss(r, reason);
  }
}

void Coordinator::conclude_loss(int r, const std::string& reason) {
  mode_ = Mode::lost;
  watch_at_.reset();
  send(everyone, LostRank{r, reason});
}

// A rank that reports its own loss has not left, though it may leave: it will not meet the other
// ranks in MPI_Finalize.
void Coordinator::handle(int from, const LostRank& loss) {
  check(loss.rank >= 0 && loss.rank < size_, "a lost rank is one of the ranks");
  if (from == loss.rank) {
    conclude_loss(loss.rank, loss.reason);
  } else {
    note_lost(loss.rank, loss.reason);
  }
}

}  // namespace tutti::coordinator
