#include "collective/leader_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/failure.h"

namespace tutti::collective {
namespace {

/// Blocks begin on cache lines where they are whole ones.
constexpr std::size_t granule = 64;

/// The most blocks that a message has: of the round that doubles what is known, or of the last.
std::size_t most_blocks(std::size_t nodes) {
  std::size_t most = 1;
  for (std::size_t distance = 1; distance < nodes; distance *= 2) {
    most = std::max(most, std::min(distance, nodes - distance));
  }
  return most;
}

}  // namespace

LeaderGate::LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders,
                       std::size_t me)
    : me_(me), nodes_(leaders.size()), requests_(communicator) {
  const std::size_t most = most_block(static_cast<int>(nodes_));
  blocks_.resize(nodes_ * most);
  for (std::size_t distance = 1; distance < nodes_; distance *= 2) {
    Round& round = rounds_.emplace_back();
    round.to = leaders[(me + distance) % nodes_];
    round.from = leaders[(me + nodes_ - distance) % nodes_];
    round.have = distance;
    round.blocks = std::min(distance, nodes_ - distance);
    round.incoming.resize(sizeof(Header) + round.blocks * most);
    post(round);
  }
}

std::size_t LeaderGate::most_block(int nodes) {
  const std::size_t room = mpi::message_bytes - sizeof(Header);
  return room / most_blocks(static_cast<std::size_t>(nodes)) / granule * granule;
}

std::size_t LeaderGate::buffer_bytes() const {
  std::size_t sum = blocks_.size();
  for (const Round& round : rounds_) sum += round.incoming.size();
  for (const Sending& sending : sending_) sum += sending.message.capacity();
  for (const auto& message : spare_) sum += message.capacity();
  return sum;
}

void LeaderGate::post(Round& round) {
  const auto tag = static_cast<int>(round.have);
  round.receive = requests_.receive(round.from, tag, round.incoming);
  round.posted = true;
}

void LeaderGate::tell() {
  if (round_ == rounds_.size()) return;
  const Round& round = rounds_[round_];
  Sending& sending = sending_.emplace_back();
  if (!spare_.empty()) {
    sending.message = std::move(spare_.back());
    spare_.pop_back();
  }
  const std::size_t bytes = round.blocks * block_bytes_;
  sending.message.resize(sizeof(Header) + bytes);
  std::memcpy(sending.message.data(), &gate_, sizeof(Header));
  if (bytes > 0) std::memcpy(sending.message.data() + sizeof(Header), blocks_.data(), bytes);
  bytes_sent_ += bytes;
  sending.id = requests_.send(round.to, static_cast<int>(round.have), sending.message);
}

void LeaderGate::arrive(std::uint32_t epoch, std::uint64_t number,
                        std::span<const std::byte> block) {
  base::check(block.size() * nodes_ <= blocks_.size(), "a gate's block is small");
  gate_ = {epoch, number + 1};
  block_bytes_ = block.size();
  if (!block.empty()) std::memcpy(blocks_.data(), block.data(), block.size());
  waiting_ = true;
  round_ = 0;
  tell();
}

LeaderGate::Header LeaderGate::header_of(const Round& round) const {
  Header header;
  std::memcpy(&header, round.incoming.data(), sizeof(Header));
  return header;
}

/// Whether the round's peer has arrived; takes what its message carries.
bool LeaderGate::heard(Round& round) {
  while (!round.posted || requests_.done(round.receive)) {
    round.posted = false;
    const Header theirs = header_of(round);
    const auto where = [](const Header& header) {
      return std::pair(header.epoch, header.batch_plus_one);
    };
    if (where(theirs) > where(gate_)) return theirs.epoch == gate_.epoch && block_bytes_ == 0;
    const bool here = where(theirs) == where(gate_);
    if (here && block_bytes_ > 0) {
      std::memcpy(place(round.have), round.incoming.data() + sizeof(Header),
                  round.blocks * block_bytes_);
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
  while (round_ < rounds_.size()) {
    if (!heard(rounds_[round_])) return false;
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

std::byte* LeaderGate::block(std::size_t node) {
  return place((me_ + nodes_ - node) % nodes_);
}

std::string LeaderGate::describe() const {
  if (!waiting_) return "no gate between nodes is open";
  return fmt::format("gate of batch {} of epoch {} waits for rank {}", gate_.batch_plus_one - 1,
                     gate_.epoch, rounds_[round_].from);
}

}  // namespace tutti::collective
