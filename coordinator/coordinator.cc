#include "coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "coordinator/fingerprint_of.h"
#include "coordinator/text.h"

namespace tutti::coordinator {
namespace {

/// The number of parts that are planned ahead of the slowest rank. They keep data moving over the
/// round trip of a report, and are few enough that a more urgent tensor can soon overtake.
constexpr std::uint64_t parts_ahead = 2;

}  // namespace

using base::check;

Coordinator::Coordinator(int size, const Settings& settings)
    : size_(size),
      settings_(settings),
      ranks_(static_cast<std::size_t>(size)),
      keys_(size),
      planner_(settings.host, settings.device),
      log_(size) {}

void Coordinator::receive(int from, const ToCoordinator& message) {
  check(from >= 0 && from < size_, "messages come from ranks");
  if (mode_ == Mode::lost) return;
  std::visit([&](const auto& one) { handle(from, one); }, message);
}

void Coordinator::handle(int from, const Report& report) {
  if (!is_negotiating(report.epoch)) return;
  log_.note_entered(from, report.entered);
  for (const ReadyCall& ready : report.ready) count(from, keys_.slot_of_id(ready.id), ready);
  for (const FreshCall& fresh : report.fresh) {
    check(fresh.signature.root >= 0 && fresh.signature.root < size_, "a root is one of the ranks");
    count(from, keys_.slot_of(fresh.key), fresh);
  }
  settle();
}

template <typename Ready>
void Coordinator::count(int from, Slot slot, const Ready& ready) {
  Gathering& gathering = keys_[slot].ranks;
  if (ready.round < gathering.round()) {
    send(from, Failed{epoch_, keys_[slot].key, ready.round,
                      late_failure(gathering, ready.round, key_name(slot))});
    return;
  }
  check(ready.round == gathering.round(), "no rank is ahead of a key's round");
  keys_.vote(slot, from, ready, now_ - ready.age);
  if (gathering.count() == 1) watch_from(gathering.since(), gathering.notice_at);
  if (first_to_leave_ >= 0 && keys_[slot].start == 0) {
    fail(slot, gone_failure(key_name(slot)));
  } else if (is_complete(gathering)) {
    conclude(slot);
  }
}

/// A rank that has joined counts as present.
bool Coordinator::is_complete(const Gathering& gathering) const {
  if (gathering.count() == size_) return true;
  if (gathering.count() == 0 || joined_ == 0) return false;
  for (int r = 0; r < size_; ++r) {
    if (!gathering.has(r) && !rank(r).joined) return false;
  }
  return true;
}

// All ranks have reported. The key goes to the planner, or fails on all ranks with one error.
void Coordinator::conclude(Slot slot) {
  KeyState& state = keys_[slot];
  const Signature& signature = state.variants.front().signature;
  if (state.variants.size() > 1) {
    const std::vector<Said> said = keys_.said(slot);
    fail(slot, {ErrorCode::mismatch, explain_mismatch(state.key, said), differing_ranks(said)});
    return;
  }
  if (signature.kind == CollectiveKind::broadcast && !state.ranks.has(signature.root)) {
    fail(slot, {ErrorCode::aborted,
                fmt::format("key {}: the root, rank {}, has joined, and sends no values",
                            state.key.describe(), signature.root),
                {signature.root}});
    return;
  }
  if (needs_every_rank(signature.kind) && state.ranks.count() < size_) {
    Ranks joined;
    for (int r = 0; r < size_; ++r) {
      if (!state.ranks.has(r)) joined.push_back(r);
    }
    fail(slot, {ErrorCode::aborted,
                fmt::format("key {}: no {} from ranks that have joined ({})", state.key.describe(),
                            is_sharded(signature.kind) ? "shard comes" : "shares come",
                            rank_list(joined)),
                joined});
    return;
  }
  state.ranks.forget_tombstones();
  state.queued = true;
  const std::uint64_t given_away = keys_.given_away();
  const KeyId id = keys_.agree(slot, agreements_);
  if (keys_.given_away() != given_away) cycles_.restart(log_.next_number());
  planner_.add({.id = id,
                .round = state.ranks.round(),
                .priority = state.priority,
                .active_ranks = state.ranks.count(),
                .start = state.start,
                .signature = signature});
}

// Ranks that have not reported the round yet are told when they do. So their use of the key is not
// paired with the next use of the other ranks.
void Coordinator::fail(Slot slot, const Failure& failure) {
  KeyState& state = keys_[slot];
  send(everyone, Failed{epoch_, state.key, state.ranks.round(), failure});
  end(state.ranks, failure);
  keys_.go_to(slot, state.ranks.round() + 1, 0);
}

/// The error for a rank that reports a failed round late.
Failure Coordinator::late_failure(const Gathering& gathering, Round round,
                                  const std::string& what) const {
  if (const Failure* failure = gathering.tombstone(round)) return *failure;
  check(first_to_leave_ >= 0, "a rank comes late only to a round that failed");
  return gone_failure(what);
}

void Coordinator::end(Gathering& gathering, const Failure& failure) {
  if (is_complete(gathering)) {
    gathering.forget_tombstones();
  } else if (first_to_leave_ < 0) {
    gathering.bury(failure);  // after a departure all rounds fail alike
  }
}

void Coordinator::settle() {
  plan();
  if (mode_ != Mode::negotiating) return;
  settle_join();
  let_go();
}

void Coordinator::plan() {
  Plan plan{.epoch = epoch_, .first = log_.next_number(), .agreements = {}, .batches = {}};
  const std::uint64_t ahead = settings_.host.part_bytes * parts_ahead;
  while (!planner_.empty() && (ahead == 0 || log_.bytes_ahead() < ahead)) {
    std::uint64_t bytes = 0;
    PlanBatch batch = planner_.next(bytes);
    // One of the batches that are planned ahead asks for an acknowledgement, so that planning goes
    // on.
    bytes_unacknowledged_ += bytes;
    batch.acknowledge = ahead > 0 && bytes_unacknowledged_ >= settings_.host.part_bytes;
    if (batch.acknowledge) bytes_unacknowledged_ = 0;
    if (settings_.replay) record(batch);
    log_.add(batch, bytes);
    for (const PlanPart& part : batch.parts) {
      const std::uint64_t count = keys_.signature(part.id).shape.count();
      if (part.begin + part.count == count)
        keys_.go_to(keys_.slot_of_id(part.id), part.round + 1, 0);
    }
    plan.batches.push_back(std::move(batch));
  }
  if (plan.batches.empty()) return;
  check(!draining_, "nothing is planned once ranks drain");
  join_waits_since_ = now_;
  plan.agreements = std::exchange(agreements_, {});
  send(everyone, std::move(plan));
  if (settings_.replay) consider_replay();
}

std::vector<Outgoing> Coordinator::take_messages() {
  return std::exchange(messages_, {});
}

std::vector<std::string> Coordinator::take_notices() {
  return std::exchange(notices_, {});
}

bool Coordinator::is_finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.gone; });
}

}  // namespace tutti::coordinator
