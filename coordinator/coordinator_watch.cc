// Watches which ranks are waited for, and since when: stall reports, timeouts, reports of hangs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/wait_limits.h"
#include "coordinator/coordinator.h"
#include "coordinator/fingerprint_of.h"
#include "coordinator/text.h"

namespace tutti::coordinator {
namespace {

/// The most keys that one text names.
constexpr std::size_t shown_keys = 5;

}  // namespace

void Coordinator::note(Time due) {
  watch_at_ = watch_at_ ? std::min(*watch_at_, due) : due;
}

/// Begins a wait. Its first report is due at `notice_at`, or at its timeout if that is earlier.
void Coordinator::watch_from(Time since, Time& notice_at) {
  notice_at = since + settings_.stall_report_after;
  note(std::min(notice_at, since + settings_.key_timeout));
}

std::optional<Time> Coordinator::next_tick() const {
  return watch_at_;
}

// Only the earliest deadline is kept, and each look finds the next one. So a report needs no timer
// of its own.
void Coordinator::tick(Time now) {
  now_ = now;
  if (!watch_at_ || now_ < *watch_at_) return;
  watch_at_.reset();
  switch (mode_) {
    case Mode::negotiating:
      watch_keys();
      watch_join();
      watch_leaving();
      settle();
      break;
    case Mode::stopping:
      watch_stop();
      break;
    case Mode::replaying:
    case Mode::lost:
      break;
  }
}

std::vector<int> Coordinator::missing(const Gathering& gathering) const {
  Ranks ranks;
  for (int r = 0; r < size_; ++r) {
    if (!gathering.has(r) && !rank(r).joined) ranks.push_back(r);
  }
  return ranks;
}

std::vector<int> Coordinator::ranks_that(bool (*holds)(const Rank&)) const {
  Ranks ranks;
  for (int r = 0; r < size_; ++r) {
    if (holds(rank(r))) ranks.push_back(r);
  }
  return ranks;
}

// Keys that lack the same ranks share a line. Each key has its own timeout.
void Coordinator::watch_keys() {
  std::map<Ranks, std::vector<std::string>> stalled;
  std::map<Ranks, Time> longest;
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    KeyState& state = keys_[slot];
    if (state.queued || state.ranks.count() == 0) continue;
    const Time waited = now_ - state.ranks.since();
    const Ranks absent = missing(state.ranks);
    if (waited >= settings_.key_timeout && state.start == 0) {
      const std::string_view what = is_barrier(state.key) ? "come" : "submit it";
      fail(slot, {ErrorCode::timeout,
                  fmt::format("{}: {} did not {} within {}", key_name(slot), rank_list(absent),
                              what, base::key_limit(settings_.key_timeout)),
                  absent});
      continue;
    }
    if (now_ >= state.ranks.notice_at) {
      stalled[absent].push_back(name_of(state.key));
      longest[absent] = std::max(longest[absent], waited);
      state.ranks.notice_at = now_ + std::max(waited, settings_.stall_report_after);
    }
    note(state.start > 0
             ? state.ranks.notice_at
             : std::min(state.ranks.notice_at, state.ranks.since() + settings_.key_timeout));
  }
  for (const auto& [absent, names] : stalled) {
    const bool meets = names.size() == 1 && names.front() == name_of(barrier_call().key);
    const std::string what = meets ? "at the barrier" : "to submit " + some_of(names, shown_keys);
    notices_.push_back(fmt::format("waiting for {} {}: {} so far", rank_list(absent), what,
                                   seconds(longest[absent])));
  }
}

void Coordinator::watch_join() {
  if (joined_ == 0) return;
  const Time waited = now_ - join_waits_since_;
  const Ranks absent = ranks_that([](const Rank& r) { return !r.joined; });
  if (waited >= settings_.key_timeout && planner_.empty()) {
    end_join(Failure{ErrorCode::timeout,
                     fmt::format("join: {} did not join, and nothing was exchanged, within {}",
                                 rank_list(absent), base::key_limit(settings_.key_timeout)),
                     absent});
    return;
  }
  if (now_ >= join_notice_at_) {
    notices_.push_back(fmt::format("waiting for {} to join: nothing exchanged for {}",
                                   rank_list(absent), seconds(waited)));
    join_notice_at_ = now_ + std::max(waited, settings_.stall_report_after);
  }
  note(std::min(join_notice_at_, join_waits_since_ + settings_.key_timeout));
}

void Coordinator::watch_stop() {
  const Time waited = now_ - stop_since_;
  const Ranks silent = ranks_that([](const Rank& r) { return !r.stopped; });
  if (waited >= settings_.key_timeout) {
    note_lost(silent.front(), fmt::format("it did not answer a stop within {}",
                                          base::key_limit(settings_.key_timeout)));
    return;
  }
  if (now_ >= stop_notice_at_) {
    notices_.push_back(fmt::format("waiting for {} to stop epoch {}: {} so far", rank_list(silent),
                                   epoch_, seconds(waited)));
    stop_notice_at_ = now_ + std::max(waited, settings_.stall_report_after);
  }
  note(std::min(stop_notice_at_, stop_since_ + settings_.key_timeout));
}

/// Returns text such as "the tensors under way are done (1 and 2), held up by rank 3".
std::string Coordinator::what_is_under_way() const {
  std::vector<std::string> names;
  std::vector<bool> late(ranks_.size(), false);
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    const KeyState& state = keys_[slot];
    // After a departure, only tensors that have started are still queued.
    if (!state.queued && state.start == 0) continue;
    names.push_back(name_of(state.key));
    for (const int r : state.queued ? log_.behind() : missing(state.ranks)) {
      late[static_cast<std::size_t>(r)] = true;
    }
  }
  Ranks ranks;
  for (int r = 0; r < size_; ++r) {
    if (late[static_cast<std::size_t>(r)]) ranks.push_back(r);
  }
  const std::string text =
      fmt::format("the tensors under way are done ({})", some_of(names, shown_keys));
  return ranks.empty() ? text : fmt::format("{}, held up by {}", text, rank_list(ranks));
}

/// Says for messages what must happen before a rank that leaves, or rank 0, may go.
std::string Coordinator::what_holds_leaving() const {
  if (!draining_) return what_is_under_way();
  if (!undrained().empty()) return "the last batches are done at " + rank_list(undrained());
  return rank_list(ranks_that([](const Rank& r) { return !r.gone && (!r.leaving || r.let_go); }));
}

// Rank 0 cannot leave before the others, and no rank can leave before the started tensors are done.
// But no rank may wait for ever either.
void Coordinator::watch_leaving() {
  const Ranks held = ranks_that([](const Rank& r) { return r.leaving && !r.let_go; });
  if (held.empty()) return;
  const Time waited = now_ - leave_waits_since_;
  if (waited >= settings_.key_timeout) {
    note_lost(held.front(),
              fmt::format("it waited {} and can leave only after {}",
                          base::key_limit(settings_.key_timeout), what_holds_leaving()));
    return;
  }
  if (now_ >= leave_notice_at_) {
    notices_.push_back(fmt::format("{} can leave only after {}: {} so far", rank_list(held),
                                   what_holds_leaving(), seconds(waited)));
    leave_notice_at_ = now_ + std::max(waited, settings_.stall_report_after);
  }
  note(std::min(leave_notice_at_, leave_waits_since_ + settings_.key_timeout));
}

std::string Coordinator::describe() const {
  static constexpr const char* modes[] = {"negotiating", "stopping", "replaying", "lost"};
  std::string text = fmt::format(
      "coordinator: {} in epoch {}, {} batches planned, {} entered by all",
      modes[static_cast<std::size_t>(mode_)], epoch_, log_.next_number(), log_.entered_by_all());
  if (replay_) text += fmt::format(", a cycle of {} batches", replay_->batches.size());
  if (!last_escape_.empty()) text += "; last replay ended by " + last_escape_;
  std::map<Ranks, std::vector<std::string>> waiting;
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    const KeyState& state = keys_[slot];
    if (state.queued || state.ranks.count() == 0) continue;
    waiting[missing(state.ranks)].push_back(name_of(state.key));
  }
  for (const auto& [absent, names] : waiting) {
    text += fmt::format("; {} not submitted by {}", some_of(names, shown_keys), rank_list(absent));
  }
  return text;
}

}  // namespace tutti::coordinator
