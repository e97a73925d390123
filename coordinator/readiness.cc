#include "coordinator/readiness.h"

#include <algorithm>

#include "base/failure.h"
#include "coordinator/fingerprint_of.h"

namespace tutti::coordinator {

void Gathering::arrive(int rank, std::size_t vote, Time since) {
  since_ = count_ == 0 ? since : std::min(since_, since);
  votes_[static_cast<std::size_t>(rank)] = static_cast<std::uint16_t>(vote + 1);
  ++count_;
}

void Gathering::clear() {
  std::fill(votes_.begin(), votes_.end(), std::uint16_t{0});
  count_ = 0;
}

void Gathering::go_to(Round round) {
  clear();
  round_ = round;
}

const Failure* Gathering::tombstone(Round round) const {
  for (const Tombstone& one : tombstones_) {
    if (one.round == round) return &one.failure;
  }
  return nullptr;
}

void Gathering::fingerprint(Fingerprint& to) const {
  to.add(round_);
  for (const std::uint16_t vote : votes_) to.add(vote);
  if (count_ > 0) to.add(since_).add(notice_at);
  to.add(tombstones_.size());
  for (const Tombstone& one : tombstones_) to.add(one.round).add(one.failure.text);
}

Readiness::Slot Readiness::slot_of(const Key& key) {
  const auto [at, fresh] = slots_.try_emplace(key, size());
  if (fresh)
    keys_.push_back(KeyState{.key = key, .ranks = Gathering(size_), .variants = {}, .ids = {}});
  return at->second;
}

Readiness::Slot Readiness::slot_of_id(KeyId id) const {
  base::check(id < agreed_.size(), "a report names only agreed keys");
  return agreed_[id].slot;
}

void Readiness::vote(Slot slot, int rank, const ReadyCall& ready, Time since) {
  count(slot, rank, ready.id, agreed_[ready.id].signature, ready.priority, since);
}

void Readiness::vote(Slot slot, int rank, const FreshCall& fresh, Time since) {
  count(slot, rank, std::nullopt, fresh.signature, fresh.priority, since);
}

void Readiness::count(Slot slot, int rank, std::optional<KeyId> id, const Signature& signature,
                      std::int32_t priority, Time since) {
  KeyState& state = keys_[slot];
  base::check(!state.ranks.has(rank), "a rank reports a key's round once");
  auto& variants = state.variants;
  auto at = std::find_if(variants.begin(), variants.end(), [&](const KeyState::Variant& known) {
    return (id && known.id == id) || known.signature == signature;
  });
  if (at == variants.end()) at = variants.insert(at, {id, signature});
  state.priority = state.ranks.count() == 0 ? priority : std::max(state.priority, priority);
  state.ranks.arrive(rank, static_cast<std::size_t>(at - variants.begin()), since);
}

KeyId Readiness::agree(Slot slot, std::vector<Agreement>& agreements) {
  KeyState& state = keys_[slot];
  const Signature& signature = state.variants.front().signature;
  for (const KeyId id : state.ids) {
    if (agreed_[id].signature == signature) return id;
  }
  KeyId id = static_cast<KeyId>(agreed_.size());
  if (state.ids.size() < ids_per_key) {
    agreed_.push_back({slot, signature});
  } else {
    // Every rank has reported this round, so no rank can mean the old signature by this id any
    // more.
    id = state.ids.front();
    state.ids.erase(state.ids.begin());
    agreed_[id].signature = signature;
    ++given_away_;
  }
  state.ids.push_back(id);
  agreements.push_back({id, state.key, signature});
  return id;
}

void Readiness::clear_votes(Slot slot) {
  KeyState& state = keys_[slot];
  state.ranks.clear();
  state.variants.clear();
  state.queued = false;
}

void Readiness::go_to(Slot slot, Round round, std::uint64_t start) {
  clear_votes(slot);
  keys_[slot].ranks.go_to(round);
  if (keys_[slot].start > 0) --started_;
  if (start > 0) ++started_;
  keys_[slot].start = start;
}

std::vector<Said> Readiness::said(Slot slot) const {
  const KeyState& state = keys_[slot];
  std::vector<Said> said;
  for (const auto& variant : state.variants) said.push_back({variant.signature, {}});
  for (int rank = 0; rank < size_; ++rank) {
    if (state.ranks.has(rank)) said[state.ranks.vote(rank)].ranks.push_back(rank);
  }
  return said;
}

void Readiness::fingerprint(Fingerprint& to) const {
  for (const KeyState& state : keys_) {
    add_to(to, state.key);
    state.ranks.fingerprint(to);
    for (const auto& variant : state.variants) add_to(to, variant.signature);
    to.add(state.variants.size()).add(state.start).add(state.queued);
    if (state.ranks.count() > 0) to.add(state.priority);
    for (const KeyId id : state.ids) to.add(id);
  }
  for (const Agreed& agreed : agreed_) {
    to.add(agreed.slot);
    add_to(to, agreed.signature);
  }
}

}  // namespace tutti::coordinator
