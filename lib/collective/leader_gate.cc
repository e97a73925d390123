#include "collective/leader_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tutti::collective {
namespace {

/// Without a payload, a leader has heard of this many times as many nodes after each round.
constexpr std::size_t radix = 8;

}  // namespace

LeaderGate::LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders,
                       std::size_t me)
    : leaders_(std::move(leaders)), piggyback_(leaders_.size(), me), requests_(communicator) {
  requests_.hold(messages_);
  const std::size_t nodes = leaders_.size();
  for (const Piggyback::Round& round : piggyback_.rounds()) {
    add(round.to, round.from, &round);
    carrying_.ends.push_back(streams_.size());
  }
  bare_.begin = streams_.size();
  for (std::size_t known = 1; known < nodes; known *= radix) {
    for (std::size_t ahead = known; ahead < std::min(known * radix, nodes); ahead += known) {
      add((me + ahead) % nodes, (me + nodes - ahead) % nodes, nullptr);
    }
    bare_.ends.push_back(streams_.size());
  }
  for (Stream& stream : streams_) post(stream);
}

void LeaderGate::add(std::size_t to, std::size_t from, const Piggyback::Round* carries) {
  Stream& stream =
      streams_.emplace_back(Stream{.to = to, .from = from, .carries = carries, .message = {}});
  stream.message.resize(carries == nullptr ? sizeof(Header) : mpi::message_bytes);
}

std::size_t LeaderGate::buffer_bytes() const {
  std::size_t sum = Piggyback::buffer_bytes(leaders_.size());
  for (const Stream& stream : streams_) sum += stream.message.size();
  for (const Sending& sending : sending_) sum += sending.message.capacity();
  for (const auto& spare : {&spare_, &spare_bare_}) {
    for (const auto& message : *spare) sum += message.capacity();
  }
  return sum;
}

std::size_t LeaderGate::most_buffer_bytes(std::size_t nodes) {
  const auto rounds = static_cast<std::size_t>(std::bit_width(nodes - 1));
  std::size_t bare = 0;
  for (std::size_t known = 1; known < nodes; known *= radix) bare += radix - 1;
  return Piggyback::buffer_bytes(nodes) + 3 * (rounds * mpi::message_bytes + bare * sizeof(Header));
}

void LeaderGate::post(Stream& stream) {
  const auto tag = static_cast<int>(&stream - streams_.data());
  stream.id = requests_.receive(leaders_[stream.from], tag, stream.message);
  stream.posted = true;
}

void LeaderGate::send_round() {
  if (round_ == rounds_->ends.size()) return;
  next_ = round_ == 0 ? rounds_->begin : rounds_->ends[round_ - 1];
  for (std::size_t i = next_; i < rounds_->ends[round_]; ++i) send(i);
}

void LeaderGate::send(std::size_t tag) {
  const Stream& stream = streams_[tag];
  const bool carries = stream.carries != nullptr;
  const auto load = carries ? piggyback_.outgoing(*stream.carries) : std::span<const std::byte>();
  Sending& sending = sending_.emplace_back();
  sending.carries = carries;
  std::vector<std::vector<std::byte>>& spare = carries ? spare_ : spare_bare_;
  if (!spare.empty()) {
    sending.message = std::move(spare.back());
    spare.pop_back();
  }
  sending.message.resize(sizeof(Header) + load.size());
  std::memcpy(sending.message.data(), &gate_, sizeof(Header));
  if (!load.empty()) {
    std::memcpy(sending.message.data() + sizeof(Header), load.data(), load.size());
  }
  bytes_sent_ += load.size();
  sending.id = requests_.send(leaders_[stream.to], static_cast<int>(tag), sending.message);
}

void LeaderGate::arrive(std::uint32_t epoch, std::uint64_t number, const Piggyback::Load& load) {
  gate_ = {epoch, number + 1};
  const bool carries = load.kind != Piggyback::Kind::none;
  if (carries) piggyback_.load(load);
  rounds_ = carries ? &carrying_ : &bare_;
  waiting_ = true;
  round_ = 0;
  send_round();
}

/// Takes in the peer's messages and the data that they carry. Returns true if the peer has arrived
/// at this gate.
bool LeaderGate::receive_arrival(Stream& stream) {
  while (!stream.posted || requests_.take_finished(stream.id)) {
    stream.posted = false;
    Header theirs;
    std::memcpy(&theirs, stream.message.data(), sizeof(Header));
    const auto where = [](const Header& header) {
      return std::pair(header.epoch, header.batch_plus_one);
    };
    if (where(theirs) > where(gate_)) return false;
    const bool here = where(theirs) == where(gate_);
    if (here && stream.carries != nullptr) {
      piggyback_.take(*stream.carries, stream.message.data() + sizeof(Header));
    }
    post(stream);
    if (here) return true;
  }
  return false;
}

/// Does the same for all peers of this round.
bool LeaderGate::receive_round() {
  while (next_ < rounds_->ends[round_]) {
    if (!receive_arrival(streams_[next_])) return false;
    ++next_;
  }
  return true;
}

void LeaderGate::collect_sent() {
  std::erase_if(sending_, [&](Sending& sending) {
    if (!requests_.take_finished(sending.id)) return false;
    (sending.carries ? spare_ : spare_bare_).push_back(std::move(sending.message));
    return true;
  });
}

bool LeaderGate::poll_closed() {
  moved_ = false;
  if (!waiting_) return false;
  requests_.progress();
  collect_sent();
  while (round_ < rounds_->ends.size()) {
    if (!receive_round()) return false;
    ++round_;
    moved_ = true;
    send_round();
  }
  waiting_ = false;
  // Collects the sends that MPI completed at once.
  requests_.progress();
  collect_sent();
  return true;
}

std::string LeaderGate::describe() const {
  if (!waiting_) return "no gate between nodes is open";
  return fmt::format("gate of batch {} of epoch {} waits for rank {}", gate_.batch_plus_one - 1,
                     gate_.epoch, leaders_[streams_[next_].from]);
}

}  // namespace tutti::collective
