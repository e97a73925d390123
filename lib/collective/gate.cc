#include "collective/gate.h"

#include <fmt/format.h>

namespace tutti::collective {
namespace {

/// A gate as a word: the epoch, and one more than the batch, so that 0 is no gate at all.
constexpr int number_bits = 40;

std::uint64_t gate_word(std::uint32_t epoch, std::uint64_t number) {
  return (std::uint64_t{epoch} << number_bits) | (number + 1);
}

std::uint64_t epoch_of(std::uint64_t word) {
  return word >> number_bits;
}

std::uint64_t number_of(std::uint64_t word) {
  return (word & ((std::uint64_t{1} << number_bits) - 1)) - 1;
}

bool passed(std::uint64_t gate, std::uint64_t theirs) {
  return epoch_of(theirs) == epoch_of(gate) && theirs >= gate;
}

}  // namespace

Gate::Gate(const topology::Topology& topology, const shm::NodeMemory& memory,
           mpi::Communicator* communicator)
    : topology_(topology), memory_(memory) {
  if (several_nodes() && topology.is_leader()) {
    leader_gate_.emplace(*communicator, topology.kin(0), static_cast<std::size_t>(topology.node()));
  }
}

void Gate::arrive(std::uint32_t epoch, std::uint64_t number) {
  standing_at_ = gate_word(epoch, number);
  node_has_arrived_ = false;
  memory_.mine().gate.store(standing_at_);
  // Only the last to arrive wakes anybody; of two last ones at once at least one sees the other.
  if (!node_arrived(standing_at_)) return;
  if (!several_nodes()) {
    memory_.ring_peers();
  } else if (!topology_.is_leader()) {
    memory_.ring(0);
  }
}

bool Gate::node_arrived(std::uint64_t word) const {
  bool all = true;
  for (int local = 0; local < memory_.local_size(); ++local) {
    all &= passed(word, memory_.block(local).gate.load());
  }
  return all;
}

bool Gate::nodes_arrived(std::uint32_t epoch, std::uint64_t number) {
  if (!node_has_arrived_) {
    node_has_arrived_ = true;
    leader_gate_->arrive(epoch, number);
  }
  return leader_gate_->closed();
}

bool Gate::closed(std::uint32_t epoch, std::uint64_t number) {
  const std::uint64_t word = gate_word(epoch, number);
  if (!several_nodes()) {
    if (!node_arrived(word)) return false;
  } else if (!leader_gate_) {
    if (!passed(word, memory_.node_closed().load())) return false;
  } else {
    if (!node_arrived(word) || !nodes_arrived(epoch, number)) return false;
    memory_.node_closed().store(word);
    memory_.ring_peers();
  }
  standing_at_ = 0;
  return true;
}

void Gate::forget(std::uint32_t epoch, std::uint64_t number) {
  if (standing_at_ != gate_word(epoch, number)) return;
  standing_at_ = 0;
  // When the coordinator closed it all have arrived, and looking at their words makes what they
  // wrote before visible here.
  node_arrived(gate_word(epoch, number));
  if (leader_gate_) leader_gate_->withdraw();
}

std::string Gate::describe() const {
  if (standing_at_ == 0) return {};
  std::string missing;
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (passed(standing_at_, memory_.block(local).gate.load())) continue;
    const int rank = topology_.local_ranks()[static_cast<std::size_t>(local)];
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  std::string text = fmt::format("gate of batch {} of epoch {}: ", number_of(standing_at_),
                                 epoch_of(standing_at_));
  if (!missing.empty()) return text + "not arrived on this node: rank " + missing;
  if (!several_nodes()) return text + "all have arrived";
  if (!leader_gate_) return text + "this node has arrived; its leader has not heard of all others";
  return text + "this node has arrived; " + leader_gate_->describe();
}

}  // namespace tutti::collective
