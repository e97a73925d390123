#include "collective/gate.h"

#include <fmt/format.h>

#include "collective/gate_word.h"

namespace tutti::collective {
namespace {

std::uint64_t epoch_of(std::uint64_t word) {
  return word >> gate_number_bits;
}

bool passed(std::uint64_t gate, std::uint64_t theirs) {
  return epoch_of(theirs) == epoch_of(gate) && theirs >= gate;
}

}  // namespace

Gate::Gate(const topology::Topology& topology, const shm::NodeMemory& memory,
           mpi::Communicator* communicator, Small& small)
    : topology_(topology), memory_(memory), small_(small) {
  if (several_nodes() && topology.is_leader()) {
    leader_gate_.emplace(*communicator, topology.kin(0), static_cast<std::size_t>(topology.node()));
  }
}

void Gate::arrive(std::uint32_t epoch, std::uint64_t number, Payload payload) {
  // A rank never leaves an open gate. So if this one is still open, the coordinator has closed it.
  if (open_) close(open_->epoch, open_->number);
  open_ = Passage{epoch, number, payload};
  const std::uint64_t word = gate_word(epoch, number);
  memory_.mine().gate.store(word);
  // Only the last rank to arrive wakes the others. If two ranks arrive last at the same time, at
  // least one of them sees the other.
  if (!has_node_arrived(word)) return;
  if (!several_nodes()) {
    memory_.ring_peers();
  } else if (!topology_.is_leader()) {
    memory_.ring(0);
  }
}

bool Gate::is_at(std::uint32_t epoch, std::uint64_t number) const {
  return open_ && open_->epoch == epoch && open_->number == number;
}

bool Gate::has_node_arrived(std::uint64_t word) const {
  bool all = true;
  for (int local = 0; local < memory_.local_size(); ++local) {
    all &= passed(word, memory_.block(local).gate.load());
  }
  return all;
}

bool Gate::has_node_arrived() const {
  return has_node_arrived(gate_word(open_->epoch, open_->number));
}

/// Called on a leader whose node has arrived. Returns true once all nodes have arrived and the
/// payload is here.
bool Gate::drive(Passage& passage) {
  const Payload& payload = passage.payload;
  if (!passage.told) {
    passage.told = true;
    const Piggyback::Load load = payload.batch == nullptr
                                     ? Piggyback::Load()
                                     : small_.pack(*payload.batch, payload.sequence);
    leader_gate_->arrive(passage.epoch, passage.number, load);
  }
  if (!leader_gate_->poll_closed()) return false;
  if (payload.batch != nullptr) {
    small_.unpack(*payload.batch, payload.sequence, leader_gate_->piggyback());
    memory_.delivered_flag().store(payload.sequence + 1);
  }
  return true;
}

bool Gate::deliver_owed() {
  while (!owed_.empty()) {
    if (!drive(owed_.front())) return false;
    owed_.erase(owed_.begin());
    memory_.ring_peers();
  }
  return true;
}

bool Gate::poll_closed(std::uint32_t epoch, std::uint64_t number) {
  const std::uint64_t word = gate_word(epoch, number);
  moved_ = false;
  if (!several_nodes()) {
    if (!has_node_arrived(word)) return false;
  } else if (!leader_gate_) {
    if (!passed(word, memory_.closed_flag().load())) return false;
  } else {
    if (!deliver_owed() || !has_node_arrived(word)) return false;
    if (!drive(*open_)) {
      moved_ = leader_gate_->has_moved();
      return false;
    }
    memory_.closed_flag().store(word);
    memory_.ring_peers();
  }
  open_.reset();
  return true;
}

void Gate::withdraw(std::uint32_t epoch, std::uint64_t number) {
  if (!is_at(epoch, number)) return;
  if (open_->told) leader_gate_->withdraw();
  open_.reset();
}

void Gate::close(std::uint32_t epoch, std::uint64_t number) {
  if (!is_at(epoch, number)) return;
  // All ranks have arrived. This reads their words, so that their earlier writes are visible here.
  has_node_arrived(gate_word(epoch, number));
  if (leader_gate_ && open_->payload.batch != nullptr) {
    owed_.push_back(*open_);
  } else if (open_->told) {
    leader_gate_->withdraw();
  }
  open_.reset();
}

bool Gate::poll_delivered(std::uint64_t sequence) {
  if (!several_nodes()) return true;
  deliver_owed();
  return memory_.delivered_flag().load() > sequence;
}

std::string Gate::describe() const {
  if (!open_) return owed_.empty() ? "" : "a gate's data: " + leader_gate_->describe();
  std::string text = fmt::format("gate of batch {} of epoch {}: ", open_->number, open_->epoch);
  const std::uint64_t word = gate_word(open_->epoch, open_->number);
  std::string missing;
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (passed(word, memory_.block(local).gate.load())) continue;
    const int rank = topology_.local_ranks()[static_cast<std::size_t>(local)];
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  if (!missing.empty()) return text + "not arrived on this node: rank " + missing;
  if (!several_nodes()) return text + "all have arrived";
  if (!leader_gate_) return text + "this node has arrived; its leader has not heard of all others";
  return text + "this node has arrived; " + leader_gate_->describe();
}

}  // namespace tutti::collective
