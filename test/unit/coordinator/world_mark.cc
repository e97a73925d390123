// Worlds as marks, for tests that meet many of them, and as text.
#include <fmt/format.h>

#include "coordinator/wire.h"
#include "world.h"

namespace tutti::coordinator::test {
namespace {

template <typename Message>
std::string bytes_of_messages(const std::vector<Message>& messages) {
  Fingerprint to;
  for (const Message& message : messages) {
    const std::vector<std::byte> bytes = encode(message);
    to.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return to.bytes();
}

}  // namespace

Mark World::mark() const {
  Fingerprint all;
  const auto add = [&all](const Mark& mark) { all.add(mark.a).add(mark.b); };
  all.add(now_).add(early_).add(stuck_ticks_).add(dead_).add(coordinator_knows_dead_);
  add(coordinator_.mark([](const Coordinator& coordinator) {
    Fingerprint to;
    coordinator.fingerprint(to);
    return to.bytes();
  }));
  for (const RankParts& rank : ranks_) {
    add(rank.state.mark(bytes_of_rank));
    add(rank.up.mark(bytes_of_messages<ToCoordinator>));
    add(rank.down.mark(bytes_of_messages<ToRank>));
  }
  add(batches_.mark(bytes_of_batches));
  return mark_of(all.bytes());
}

std::string World::bytes_of_rank(const RankState& state) {
  Fingerprint to;
  state.participant.fingerprint(to);
  to.add(state.step).add(state.waiting).add(state.epoch).add(state.entered).add(state.halted);
  to.add(state.in_barrier).add(state.in_join).add(state.in_depart).add(state.has_joined);
  to.add(state.lost).add(state.dead).add(state.departed).add(state.failed).add(state.open.size());
  for (const OpenBatch& open : state.open) to.add(open.batch.number).add(open.closed);
  for (const CallRecord& call : state.calls) {
    to.add(call.moved).add(call.finished).add(call.error.value_or(""));
  }
  return to.bytes();
}

std::string World::bytes_of_batches(const Batches& batches) {
  Fingerprint to;
  for (const auto& [number, record] : batches) {
    to.add(number.first).add(number.second).add(record.withdrawn);
    for (std::size_t r = 0; r < record.entered.size(); ++r) {
      to.add(bool(record.entered[r])).add(bool(record.closed[r])).add(bool(record.done[r]));
    }
  }
  return to.bytes();
}

std::string World::describe() const {
  std::string text = coordinator_->describe();
  for (const RankParts& rank : ranks_) {
    const RankState& state = *rank.state;
    text += "\n  " + state.participant.describe();
    text += fmt::format("; program at {}, {} up, {} down{}", state.step, rank.up->size(),
                        rank.down->size(), state.dead ? ", dead" : "");
  }
  return text;
}

}  // namespace tutti::coordinator::test
