#include "collective/leader_gate.h"

#include <fmt/format.h>

namespace tutti::collective {
namespace {

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

}  // namespace

LeaderGate::LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders,
                       std::size_t me)
    : requests_(communicator) {
  const std::size_t count = leaders.size();
  for (std::size_t distance = 1; distance < count; distance *= 2) {
    Round& round = rounds_.emplace_back();
    round.to = leaders[(me + distance) % count];
    round.from = leaders[(me + count - distance) % count];
  }
  for (std::size_t round = 0; round < rounds_.size(); ++round) post(round);
}

void LeaderGate::post(std::size_t round) {
  Round& state = rounds_[round];
  state.receive = requests_.receive(state.from, static_cast<int>(round), bytes_of(state.incoming));
}

void LeaderGate::tell(std::size_t round) {
  if (round == rounds_.size()) return;
  Sending& sending = sending_.emplace_back();
  sending.message = gate_;
  sending.id =
      requests_.send(rounds_[round].to, static_cast<int>(round), bytes_of(sending.message));
}

void LeaderGate::arrive(std::uint32_t epoch, std::uint64_t number) {
  gate_ = {epoch, number + 1};
  waiting_ = true;
  round_ = 0;
  tell(0);
}

void LeaderGate::collect() {
  requests_.progress();
  while (!sending_.empty() && requests_.done(sending_.front().id)) sending_.pop_front();
  for (std::size_t round = 0; round < rounds_.size(); ++round) {
    if (!requests_.done(rounds_[round].receive)) continue;
    rounds_[round].last = rounds_[round].incoming;
    post(round);
  }
}

bool LeaderGate::closed() {
  if (!waiting_) return false;
  collect();
  while (round_ < rounds_.size()) {
    const Message& last = rounds_[round_].last;
    if (last.epoch != gate_.epoch || last.batch_plus_one < gate_.batch_plus_one) return false;
    tell(++round_);
  }
  waiting_ = false;
  return true;
}

std::string LeaderGate::describe() const {
  if (!waiting_) return "no gate between nodes is open";
  return fmt::format("gate of batch {} of epoch {} waits for rank {}", gate_.batch_plus_one - 1,
                     gate_.epoch, rounds_[round_].from);
}

}  // namespace tutti::collective
