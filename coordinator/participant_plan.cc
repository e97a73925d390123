// In this file a participant turns the coordinator's plan into batches of its own calls.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "coordinator/participant.h"

namespace tutti::coordinator {

using base::check;

// Programs use the same keys in the same order in each step. So the key that followed the last one
// is tried before the table.
Participant::Slot Participant::slot_of(const Key& key) {
  if (next_slot_ < keys_.size() && keys_[next_slot_].key == key) return next_slot_++;
  const auto [at, fresh] = slots_.try_emplace(key, static_cast<Slot>(keys_.size()));
  if (fresh) keys_.push_back(KeyUse{.key = key, .next_round = 0, .call = {}, .ids = {}});
  next_slot_ = at->second + 1;
  return at->second;
}

// Returns a pointer rather than an optional. An optional is written in halves and read as a whole,
// and that stalls the processor for longer than the search takes.
const KeyId* Participant::id_of(const KeyUse& use, const Signature& signature) const {
  for (const KeyId& id : use.ids) {
    if (ids_[id]->signature == signature) return &id;
  }
  return nullptr;
}

const Participant::KnownId& Participant::known(KeyId id) const {
  check(id < ids_.size() && ids_[id], "a plan names only agreed keys");
  return *ids_[id];
}

void Participant::learn(const Agreement& agreement) {
  const Slot slot = slot_of(agreement.key);
  if (agreement.id >= ids_.size()) ids_.resize(agreement.id + 1);
  ids_[agreement.id] = KnownId{slot, agreement.signature};
  KeyUse& use = keys_[slot];
  if (std::find(use.ids.begin(), use.ids.end(), agreement.id) == use.ids.end()) {
    use.ids.push_back(agreement.id);
  }
}

void Participant::handle(const Plan& plan) {
  if (!is_current(plan.epoch)) return;
  check(plan.first == planned_, "plans follow one another without a gap");
  check(cycle_.empty(), "nothing is planned while a cycle is repeated");
  for (const Agreement& agreement : plan.agreements) learn(agreement);
  for (const PlanBatch& batch : plan.batches) queued_.push_back(resolve(batch, planned_++));
}

Participant::TrackedBatch Participant::resolve(const PlanBatch& planned, BatchNumber number) {
  check(!planned.parts.empty(), "a batch carries something");
  const Signature& signature = known(planned.parts.front().id).signature;
  TrackedBatch batch = spare_batches_.take();
  std::vector<LocalPart> parts = std::move(batch.local.parts);
  std::vector<PartOwner> owners = std::move(batch.owners);
  parts.resize(planned.parts.size());
  owners.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PlanPart part = planned.parts[i];
    // A cycle holds the rounds of the time at which it was recorded.
    if (!cycle_.empty()) part.round = keys_[known(part.id).slot].call->round;
    owners.push_back(take(part, parts[i]));
  }
  return {.local = {.epoch = epoch_,
                    .number = number,
                    .kind = signature.kind,
                    .dtype = signature.dtype,
                    .op = signature.op,
                    .root = signature.root,
                    .device = signature.device,
                    .wire = signature.wire,
                    .active_ranks = planned.active_ranks,
                    .parts = std::move(parts)},
          .owners = std::move(owners),
          .acknowledge = planned.acknowledge};
}

// The round decides whether this rank's call takes part. A rank may have joined while its last call
// for the key still moves. That call is not part of the next round.
Participant::PartOwner Participant::take(const PlanPart& part, LocalPart& into) {
  const KnownId& id = known(part.id);
  KeyUse& use = keys_[id.slot];
  const std::uint64_t count = id.signature.shape.count();
  check(part.begin <= count && part.count <= count - part.begin, "a part lies in its tensor");
  const bool last = part.begin + part.count == count;
  into = {.call = 0, .begin = part.begin, .count = part.count, .whole = count};
  if (use.call && use.call->round == part.round) {
    // A call with an agreed id was compared when it was submitted.
    check((use.call->agreed == part.id || use.call->signature == id.signature) &&
              use.call->next == part.begin && !use.call->planned_entirely,
          "a plan goes on where the call's parts ended");
    into.call = use.call->id;
    use.call->agreed = part.id;
    use.call->next += part.count;
    use.call->planned_entirely = last;
    if (last) --to_plan_;
  } else {
    check(join_.wanted, "a plan holds only what this rank reported, unless it has joined");
    if (last) use.next_round = std::max(use.next_round, part.round + 1);
  }
  return {.slot = id.slot, .last = last};
}

void Participant::withdraw(const TrackedBatch& batch) {
  for (std::size_t i = 0; i < batch.owners.size(); ++i) {
    const LocalPart& part = batch.local.parts[i];
    if (part.call == 0) continue;
    CallState& call = *keys_[batch.owners[i].slot].call;
    call.next = part.begin;
    if (std::exchange(call.planned_entirely, false)) ++to_plan_;
  }
}

std::vector<Participant::Slot> Participant::unplanned() const {
  std::vector<Slot> slots;
  for (Slot slot = 0; slot < keys_.size(); ++slot) {
    if (keys_[slot].call && !keys_[slot].call->planned_entirely) slots.push_back(slot);
  }
  std::sort(slots.begin(), slots.end(),
            [this](Slot a, Slot b) { return keys_[a].call->sequence < keys_[b].call->sequence; });
  return slots;
}

}  // namespace tutti::coordinator
