#include "collective/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "tutti/shard.h"

namespace tutti::collective {

Engine::Engine(const topology::Topology& topology, const shm::NodeMemory& memory,
               mpi::Communicator* data, mpi::Communicator* gate, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      small_(topology, memory),
      gate_(topology, memory, gate, small_),
      lane_(topology, memory.layout(), data),
      allreduces_{Allreduce(topology, memory, lane_, tuning),
                  Allreduce(topology, memory, lane_, tuning)},
      broadcast_(topology, memory, data, tuning) {
  moving_.reserve(shm::most_open);
}

Engine::Way Engine::way_of(const Batch& batch) const {
  if (batch.count() == 0) return Way::nothing;
  if (small_.is_small(batch)) return Way::small;
  return batch.kind == CollectiveKind::broadcast ? Way::broadcast : Way::allreduce;
}

void Engine::tell_places(const Batch& batch, shm::Descriptor& descriptor) const {
  descriptor.parts = 0;
  if (batch.parts.size() > shm::Descriptor::most_parts) return;
  const bool gathers = batch.kind == CollectiveKind::allgather;
  const bool copies = gathers || batch.kind == CollectiveKind::broadcast;
  if (batch.kind == CollectiveKind::broadcast && batch.root != topology_.rank) return;
  // The lanes send from the result slots, so inputs are copied there anyway.
  if (gathers && topology_.node_count() > 1) return;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const TensorPart& part = batch.parts[i];
    const std::size_t count =
        gathers ? shard(part.count, topology_.rank, topology_.size).count() : part.count;
    if (count == 0) continue;
    const std::size_t bytes = count * size_of(batch.dtype);
    const bool others_write = batch.kind == CollectiveKind::allreduce;
    if (part.ins.empty() || (!copies && part.ins.size() > 1) ||
        (others_write && part.outs.size() != 1)) {
      return;
    }
    const auto in = memory_.arena_offset(part.ins[0], bytes);
    // Only an allreduce's outputs are written by other ranks.
    const auto out = others_write ? memory_.arena_offset(part.outs[0], bytes) : in;
    if (!in || !out) return;
    descriptor.places[i] = {*in, *out};
  }
  descriptor.parts = batch.parts.size();
}

void Engine::enter(const Batch& batch) {
  base::check(moving_.size() + ahead_ < shm::most_open, "few gates are entered ahead of the data");
  const std::uint64_t sequence = started_ + ahead_++;
  const Way way = way_of(batch);
  Gate::Payload payload;
  if (way == Way::small) {
    small_.put(batch, sequence);
    payload = {&batch, sequence};
  } else if (way != Way::nothing) {
    tell_places(batch, memory_.descriptor(memory_.local_index(), sequence));
  }
  gate_.arrive(batch.epoch, batch.number, payload);
}

void Engine::withdraw(std::uint32_t epoch, std::uint64_t number) {
  base::check(ahead_ > 0, "only an entered gate is withdrawn");
  --ahead_;
  gate_.withdraw(epoch, number);
}

bool Engine::may_start(const Batch& batch) const {
  if (moving_.empty()) return true;
  if (topology_.node_count() == 1) return false;
  std::size_t allreduces = way_of(batch) == Way::allreduce ? 1 : 0;
  for (const MovingBatch& moving : moving_) {
    if (moving.way == Way::broadcast) return false;
    if (moving.way == Way::allreduce) ++allreduces;
  }
  return way_of(batch) != Way::broadcast && allreduces <= at_once;
}

void Engine::start(const Batch& batch) {
  base::check(may_start(batch) && ahead_ > 0, "batches move behind their gates, in order");
  gate_.close(batch.epoch, batch.number);
  --ahead_;
  MovingBatch& moving =
      moving_.emplace_back(MovingBatch{&batch, way_of(batch), started_++, nullptr, false});
  if (moving.way == Way::allreduce) {
    moving.allreduce = &allreduces_[turn_++ % at_once];
    moving.allreduce->start(batch, moving.sequence, chunks_);
    chunks_ = moving.allreduce->end();
  }
  if (moving.way == Way::broadcast) {
    broadcast_.start(batch, moving.sequence, chunks_);
    chunks_ = broadcast_.end();
  }
}

Progress Engine::step() {
  if (moving_.empty()) return Progress::done;
  const Progress progress = move(moving_.front());
  if (progress == Progress::done) {
    moving_.erase(moving_.begin());
    return progress;
  }
  for (auto next = moving_.begin() + 1; progress == Progress::waiting && next != moving_.end();
       ++next) {
    if (move_behind(*next)) return Progress::moved;
  }
  return progress;
}

/// Moves a batch that ends after another one. An allreduce that is over reports it again in its
/// turn.
bool Engine::move_behind(MovingBatch& moving) {
  if (moving.way == Way::small) gate_.poll_delivered(moving.sequence);
  if (moving.allreduce == nullptr || moving.over) return false;
  const Progress progress = move(moving);
  moving.over = progress == Progress::done;
  return progress != Progress::waiting;
}

Progress Engine::move(const MovingBatch& moving) {
  switch (moving.way) {
    case Way::nothing:
      return Progress::done;
    case Way::small:
      if (!gate_.poll_delivered(moving.sequence)) return Progress::waiting;
      small_.finish(*moving.batch, moving.sequence);
      return Progress::done;
    case Way::allreduce:
      return moving.allreduce->step();
    case Way::broadcast:
      return broadcast_.step();
  }
  return Progress::done;
}

bool Engine::is_polling() const {
  return gate_.is_polling() ||
         std::any_of(moving_.begin(), moving_.end(), [this](const auto& moving) {
           return (moving.way == Way::allreduce && moving.allreduce->is_polling()) ||
                  (moving.way == Way::broadcast && broadcast_.is_polling());
         });
}

std::size_t Engine::buffer_bytes() const {
  return gate_.buffer_bytes() + lane_.buffer_bytes() + small_.buffer_bytes();
}

std::size_t Engine::most_buffer_bytes(const topology::Topology& topology, const Tuning& tuning) {
  // How far a slice is rounded up; the least room in an exchange's inbox for one sender.
  constexpr std::size_t rounding = 1024;
  constexpr std::size_t least_inbox = std::size_t{11} << 10;
  const auto nodes = static_cast<std::size_t>(topology.node_count());
  if (nodes == 1) return tuning.eager_bytes;
  return tuning.eager_bytes + LeaderGate::most_buffer_bytes(nodes) +
         tuning.slots * ((tuning.slice_bytes + rounding) / 2 * 3 + nodes * least_inbox);
}

std::string Engine::describe() const {
  std::string text = gate_.describe();
  if (moving_.empty()) return text.empty() ? "no gate is open and no data moves" : text;
  for (const MovingBatch& moving : moving_) {
    if (!text.empty()) text += "; ";
    text += describe(moving);
  }
  return text;
}

std::string Engine::describe(const MovingBatch& moving) const {
  const std::string what =
      fmt::format("batch {} of epoch {} moves: ", moving.batch->number, moving.batch->epoch);
  if (moving.way == Way::allreduce) return what + moving.allreduce->describe();
  if (moving.way == Way::broadcast) return what + broadcast_.describe();
  return what + "one step is left";
}

}  // namespace tutti::collective
