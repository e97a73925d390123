#include "coordinator/participant.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "coordinator/text.h"

namespace tutti::coordinator {

using base::check;

namespace {

constexpr std::size_t most_waits_unchecked = 64;

Error error_of(const Failure& failure, std::optional<Key> key) {
  return {failure.code, failure.text, {std::move(key), failure.ranks}};
}

}  // namespace

Participant::Participant(int rank, int size, const Settings& settings)
    : rank_(rank), size_(size), settings_(settings) {}

std::uint32_t Participant::submit(CallId id, const Call& call) {
  if (lost_) throw Error(ErrorCode::peer_lost, lost_->message, {.ranks = {lost_->rank}});
  if (depart_.wanted) {
    throw Error(ErrorCode::aborted, fmt::format("{}: this store is being closed", named(call.key)),
                {.key = call.key});
  }
  if (join_.wanted) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {} has joined; call again when join() has returned",
                            named(call.key), rank_),
                {.key = call.key});
  }
  const Slot slot = slot_of(call.key);
  KeyUse& use = keys_[slot];
  if (use.call) {
    throw Error(ErrorCode::duplicate_key,
                fmt::format("{} is already in flight on rank {}: wait for that call first",
                            named(call.key), rank_),
                {.key = call.key});
  }
  CallState& flight = use.call.emplace(id, use.next_round++, call, now_, submissions_++);
  if (const KeyId* const agreed = id_of(use, call.signature)) flight.agreed = *agreed;
  ++to_plan_;
  if (cycle_.empty()) {
    unreported_.push_back(slot);
  } else {
    await_turn(slot);
  }
  return slot;
}

void Participant::join() {
  check(!join_.wanted, "one join at a time");
  join_ = {.wanted = true};
}

void Participant::depart() {
  check(!depart_.wanted, "a rank departs once");
  depart_ = {.wanted = true};
}

void Participant::note_user_waits(const Key& key) {
  const auto at = slots_.find(key);
  if (at == slots_.end() || !keys_[at->second].call) return;
  CallState& waited = *keys_[at->second].call;
  if (std::exchange(waited.waited_for, true) || waited.planned_entirely || cycle_.empty()) return;
  if (waits_.size() >= most_waits_unchecked) forget_served_waits();
  waits_.push_back({at->second, waited.round});
}

void Participant::note_lost(int rank, const std::string& reason) {
  if (lost_ || left_) return;
  actions_.emplace_back(Send{LostRank{rank, reason}});
  handle(LostRank{rank, reason});
}

void Participant::handle(const LostRank& lost) {
  if (lost_ || left_) return;
  std::string text = lost.rank == rank_
                         ? fmt::format("rank {} failed: {}", lost.rank, lost.reason)
                         : fmt::format("rank {} is lost: {}", lost.rank, lost.reason);
  text += "; " + flight_text(rank_, keys_in_flight());
  lost_ = PeerLost{lost.rank, text};
  actions_.emplace_back(*lost_);
}

void Participant::receive(const ToRank& message) {
  if (lost_ || left_) return;
  std::visit([this](const auto& one) { handle(one); }, message);
}

// The coordinator's messages arrive in order, and it waits for `Stopped` before it goes on. So only
// a broken coordinator sends a message of another epoch. Such a message is dropped, so that it does
// no harm.
bool Participant::is_current(Epoch epoch) const {
  return epoch == epoch_;
}

void Participant::handle(const Failed& failed) {
  if (!is_current(failed.epoch)) return;
  const Slot slot = slot_of(failed.key);
  KeyUse& use = keys_[slot];
  if (use.call && use.call->round == failed.round) {
    check(use.call->next == 0 && !use.call->planned_entirely, "a started tensor does not fail");
    std::erase(unreported_, slot);
    finish(slot, error_of(failed.failure,
                          is_barrier(failed.key) ? std::nullopt : std::optional(failed.key)));
  } else if (join_.wanted) {
    // The round went on without this rank. The rank's next use is paired with the next use of the
    // others.
    use.next_round = std::max(use.next_round, failed.round + 1);
  }
}

void Participant::handle(const JoinOver& over) {
  if (!is_current(over.epoch) || !join_.wanted) return;
  join_ = {};
  std::optional<Error> error;
  if (over.failure) error = error_of(*over.failure, std::nullopt);
  actions_.emplace_back(JoinDone{over.last, std::move(error)});
}

void Participant::handle(const Drain& drain) {
  if (is_current(drain.epoch)) told_to_drain_ = owes_drained_ = true;
}

void Participant::handle(const Departed& departed) {
  if (!is_current(departed.epoch)) return;
  check(depart_.wanted, "only a rank that asked to depart is let go");
  check(open_.empty(), "a rank is let go when nothing moves");
  may_leave_ = true;
}

void Participant::finish(Slot slot, std::optional<Error> error) {
  KeyUse& use = keys_[slot];
  const CallId id = use.call->id;
  if (!use.call->planned_entirely) --to_plan_;
  use.call.reset();
  actions_.emplace_back(Finish{id, std::move(error)});
}

std::vector<Action> Participant::take_actions(std::vector<Action> memory) {
  pump();
  memory.clear();
  std::swap(actions_, memory);
  return memory;
}

void Participant::reuse(LocalBatch&& batch) {
  spare_plans_.add(std::move(batch));
}

std::vector<std::string> Participant::keys_in_flight() const {
  std::vector<const KeyUse*> uses;
  for (const KeyUse& use : keys_) {
    if (use.call) uses.push_back(&use);
  }
  std::sort(uses.begin(), uses.end(),
            [](const KeyUse* a, const KeyUse* b) { return a->call->sequence < b->call->sequence; });
  std::vector<std::string> names;
  names.reserve(uses.size());
  for (const KeyUse* use : uses) names.push_back(name_of(use->key));
  return names;
}

std::string Participant::describe_leaving() const {
  if (depart_.wanted && may_leave_) return "; free to leave";
  std::string text;
  if (depart_.wanted) text = "; wants to leave";
  if (owes_drained_) {
    text += "; its last batches must be done before anybody leaves";
  } else if (told_to_drain_) {
    text += "; has done all that was planned";
  } else if (depart_.wanted) {
    text += ", and has not been told yet that all is planned";
  }
  return text;
}

std::string Participant::describe() const {
  std::string text = fmt::format("rank {}: epoch {}, {} gates entered, {} batches planned ahead",
                                 rank_, epoch_, entered_, queued_.size());
  if (!cycle_.empty()) text += fmt::format(", replays {} batches, next {}", cycle_.size(), cursor_);
  if (halted_) text += ", stopped until the coordinator resumes";
  for (const TrackedBatch& batch : open_) {
    text +=
        fmt::format("; batch {}.{} ({} tensors) {}", batch.local.epoch, batch.local.number,
                    batch.local.parts.size(), batch.closed ? "moves data" : "waits at its gate");
  }
  if (join_.wanted) text += "; joined";
  text += describe_leaving();
  if (lost_) text += "; " + lost_->message;
  return text + "; " + flight_text(rank_, keys_in_flight());
}

}  // namespace tutti::coordinator
