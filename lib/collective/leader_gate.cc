#include "collective/leader_gate.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

namespace tutti::collective {

LeaderGate::LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders,
                       std::size_t me)
    : leaders_(std::move(leaders)),
      freight_(leaders_.size(), me),
      receiving_(freight_.rounds().size()),
      requests_(communicator) {
  for (std::size_t round = 0; round < receiving_.size(); ++round) {
    receiving_[round].message.resize(mpi::message_bytes);
    post(round);
  }
}

std::size_t LeaderGate::buffer_bytes() const {
  std::size_t sum = Freight::buffer_bytes(leaders_.size());
  for (const Receiving& receiving : receiving_) sum += receiving.message.size();
  for (const Sending& sending : sending_) sum += sending.message.capacity();
  for (const auto& message : spare_) sum += message.capacity();
  return sum;
}

std::size_t LeaderGate::most_buffer_bytes(std::size_t nodes) {
  const auto rounds = static_cast<std::size_t>(std::bit_width(nodes - 1));
  return Freight::buffer_bytes(nodes) + 3 * rounds * mpi::message_bytes;
}

void LeaderGate::post(std::size_t round) {
  Receiving& receiving = receiving_[round];
  const std::size_t from = freight_.rounds()[round].from;
  receiving.id = requests_.receive(leaders_[from], static_cast<int>(round), receiving.message);
  receiving.posted = true;
}

void LeaderGate::tell() {
  if (round_ == receiving_.size()) return;
  const Freight::Round& round = freight_.rounds()[round_];
  const std::span<const std::byte> load = freight_.outgoing(round);
  Sending& sending = sending_.emplace_back();
  if (!spare_.empty()) {
    sending.message = std::move(spare_.back());
    spare_.pop_back();
  }
  sending.message.resize(sizeof(Header) + load.size());
  std::memcpy(sending.message.data(), &gate_, sizeof(Header));
  if (!load.empty()) {
    std::memcpy(sending.message.data() + sizeof(Header), load.data(), load.size());
  }
  bytes_sent_ += load.size();
  sending.id = requests_.send(leaders_[round.to], static_cast<int>(round_), sending.message);
}

void LeaderGate::arrive(std::uint32_t epoch, std::uint64_t number, const Freight::Load& load) {
  gate_ = {epoch, number + 1};
  freight_.load(load);
  waiting_ = true;
  round_ = 0;
  tell();
}

/// Whether the round's peer has arrived; takes what its message carries.
bool LeaderGate::heard(std::size_t round) {
  Receiving& receiving = receiving_[round];
  while (!receiving.posted || requests_.done(receiving.id)) {
    receiving.posted = false;
    Header theirs;
    std::memcpy(&theirs, receiving.message.data(), sizeof(Header));
    const auto where = [](const Header& header) {
      return std::pair(header.epoch, header.batch_plus_one);
    };
    if (where(theirs) > where(gate_)) return false;
    const bool here = where(theirs) == where(gate_);
    if (here) {
      freight_.take(freight_.rounds()[round], receiving.message.data() + sizeof(Header));
    }
    post(round);
    if (here) return true;
  }
  return false;
}

void LeaderGate::collect_sent() {
  std::erase_if(sending_, [&](Sending& sending) {
    if (!requests_.done(sending.id)) return false;
    spare_.push_back(std::move(sending.message));
    return true;
  });
}

bool LeaderGate::closed() {
  moved_ = false;
  if (!waiting_) return false;
  requests_.progress();
  collect_sent();
  while (round_ < receiving_.size()) {
    if (!heard(round_)) return false;
    ++round_;
    moved_ = true;
    tell();
  }
  waiting_ = false;
  // What went out at once need not be looked at again.
  requests_.progress();
  collect_sent();
  return true;
}

std::string LeaderGate::describe() const {
  if (!waiting_) return "no gate between nodes is open";
  return fmt::format("gate of batch {} of epoch {} waits for rank {}", gate_.batch_plus_one - 1,
                     gate_.epoch, leaders_[freight_.rounds()[round_].from]);
}

}  // namespace tutti::collective
