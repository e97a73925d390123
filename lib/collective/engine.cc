#include "collective/engine.h"

#include <fmt/format.h>

#include "base/failure.h"

namespace tutti::collective {

Engine::Engine(const topology::Topology& topology, const shm::NodeMemory& memory,
               mpi::Communicator* data, mpi::Communicator* gate, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      gate_(topology, memory, gate),
      small_(topology, memory),
      allreduce_(topology, memory, data, tuning),
      broadcast_(topology, memory, data, tuning) {}

Engine::Way Engine::way_of(const Batch& batch) const {
  if (batch.count() == 0) return Way::nothing;
  if (small_.takes(batch)) return Way::small;
  return batch.kind == Batch::Kind::broadcast ? Way::broadcast : Way::allreduce;
}

void Engine::tell_places(const Batch& batch, shm::Descriptor& descriptor) const {
  descriptor.pieces = 0;
  if (batch.pieces.size() > shm::Descriptor::most_pieces) return;
  const bool broadcast = batch.kind == Batch::Kind::broadcast;
  if (broadcast && batch.root != topology_.rank) return;
  for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
    const Piece& piece = batch.pieces[i];
    if (piece.count == 0) continue;
    const std::size_t bytes = piece.count * size_of(batch.dtype);
    if (piece.ins.empty() || (!broadcast && (piece.ins.size() > 1 || piece.outs.size() != 1))) {
      return;
    }
    const auto in = memory_.arena_offset(piece.ins[0], bytes);
    // Others write an allreduce's output; what a broadcast writes is its own rank's affair.
    const auto out = broadcast ? in : memory_.arena_offset(piece.outs[0], bytes);
    if (!in || !out) return;
    descriptor.places[i] = {*in, *out};
  }
  descriptor.pieces = batch.pieces.size();
}

void Engine::enter(const Batch& batch) {
  base::check(ahead_ < shm::most_ahead, "few gates are entered ahead of the data");
  const std::uint64_t sequence = started_ + ahead_++;
  const Way way = way_of(batch);
  if (way == Way::small) {
    small_.put(batch, sequence);
  } else if (way != Way::nothing) {
    tell_places(batch, memory_.descriptor(memory_.local_index(), sequence));
  }
  gate_.arrive(batch.epoch, batch.number);
}

void Engine::withdraw(std::uint32_t epoch, std::uint64_t number) {
  base::check(ahead_ > 0, "only an entered gate is withdrawn");
  --ahead_;
  gate_.forget(epoch, number);
}

void Engine::start(const Batch& batch) {
  base::check(batch_ == nullptr && ahead_ > 0, "one batch moves at a time, behind its gate");
  gate_.forget(batch.epoch, batch.number);
  --ahead_;
  const std::uint64_t sequence = started_++;
  batch_ = &batch;
  way_ = way_of(batch);
  if (way_ == Way::allreduce) allreduce_.start(batch, sequence, chunks_);
  if (way_ == Way::broadcast) broadcast_.start(batch, sequence, chunks_);
}

Progress Engine::step() {
  const Progress progress = move();
  if (progress != Progress::done) return progress;
  if (way_ == Way::allreduce) chunks_ = allreduce_.end();
  if (way_ == Way::broadcast) chunks_ = broadcast_.end();
  batch_ = nullptr;
  return progress;
}

Progress Engine::move() {
  switch (way_) {
    case Way::nothing:
      return Progress::done;
    case Way::small:
      small_.finish(*batch_, started_ - 1);
      return Progress::done;
    case Way::allreduce:
      return allreduce_.step();
    case Way::broadcast:
      return broadcast_.step();
  }
  return Progress::done;
}

bool Engine::polling() const {
  if (gate_.polling()) return true;
  if (batch_ == nullptr) return false;
  return (way_ == Way::allreduce && allreduce_.polling()) ||
         (way_ == Way::broadcast && broadcast_.polling());
}

std::size_t Engine::most_buffer_bytes(const topology::Topology& topology, const Tuning& tuning) {
  // Rounding of a slice, and what an inbox has for a sender at the least.
  constexpr std::size_t rounding = 1024;
  constexpr std::size_t least_inbox = std::size_t{11} << 10;
  const std::size_t fixed = step_bytes + tuning.small_bytes;
  const auto nodes = static_cast<std::size_t>(topology.node_count());
  if (nodes == 1) return fixed;
  return fixed + tuning.slots * ((tuning.slice_bytes + rounding) / 2 * 3 + nodes * least_inbox);
}

std::string Engine::describe() const {
  std::string text = gate_.describe();
  if (batch_ == nullptr) return text.empty() ? "no gate is open and no data moves" : text;
  if (!text.empty()) text += "; ";
  text += fmt::format("batch {} of epoch {} moves: ", batch_->number, batch_->epoch);
  if (way_ == Way::allreduce) return text + allreduce_.describe();
  if (way_ == Way::broadcast) return text + broadcast_.describe();
  return text + "one step is left";
}

}  // namespace tutti::collective
