#include "collective/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "base/spin_pause.h"
#include "tutti/shard.h"

namespace tutti::collective {
namespace {

constexpr int most_looks = 16;

}  // namespace

Engine::Engine(const topology::Topology& topology, const shm::NodeMemory& memory,
               mpi::Communicator* data, mpi::Communicator* gate, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      site_(Site::of(topology, tuning)),
      small_(topology, memory, site_),
      gate_(topology, memory, gate, small_),
      data_(data),
      tuning_(tuning),
      host_(topology, memory, data, site_, tuning, 0),
      halves_(topology, memory, site_, tuning, small_.scratch()) {
  open_.reserve(shm::most_open);
}

void Engine::record_in(observe::Timeline& timeline) {
  timeline_ = &timeline;
  host_.record_in(timeline);
  halves_.record_in(timeline);
}

void Engine::open_own_staging(const shm::NodeMemory& staging, Grouping* grouping) {
  grouping_ = grouping;
  const int first_stream = Pipelines::streams(memory_.layout());
  own_ = std::make_unique<Pipelines>(topology_, staging, data_, site_, tuning_, first_stream);
  if (timeline_ != nullptr) own_->record_in(*timeline_);
}

void Engine::tell_places(const Batch& batch, shm::Descriptor& descriptor) const {
  if (batch.ends != nullptr || batch.is_all_to_all()) return;
  if (batch.parts.size() > shm::Descriptor::most_parts) return;
  const bool gathers = batch.kind == CollectiveKind::allgather;
  const bool copies = gathers || batch.kind == CollectiveKind::broadcast;
  if (batch.kind == CollectiveKind::broadcast && batch.root != topology_.rank) return;
  // The lanes send from the result slots, so inputs are copied there in any case.
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
    // Other ranks write only the outputs of an allreduce.
    const auto out = others_write ? memory_.arena_offset(part.outs[0], bytes) : in;
    if (!in || !out) return;
    descriptor.places[i] = {*in, *out};
  }
  descriptor.parts = batch.parts.size();
}

void Engine::enter(const Batch& batch) {
  base::check(open_.size() < shm::most_open, "few gates are entered ahead of the data");
  base::check(batch.ends == nullptr || own_, "there is staging memory for the batch's ends");
  const OpenBatch& open =
      open_.emplace_back(OpenBatch{.batch = &batch,
                                   .way = choose_way(batch, site_),
                                   .sequence = entered_++,
                                   .pipelines = batch.ends == nullptr ? &host_ : own_.get()});
  if (batch.ends != nullptr && grouping_ != nullptr) grouping_->enter(open.sequence);
  Gate::Payload payload;
  if (open.way == Way::small) {
    small_.put(batch, open.sequence);
    payload = {&batch, open.sequence};
  } else if (open.way != Way::nothing) {
    shm::Descriptor& places = memory_.descriptor(memory_.local_index(), open.sequence);
    places.parts = 0;
    // Arenas do not help a batch that moves by halves as one chunk.
    const bool halves = open.way == Way::halves;
    if (!halves || batch.bytes() > site_.eager_bytes) tell_places(batch, places);
    // Batches before this one may use the slot until they are done.
    if (halves && places.parts == 0 && open_.size() == 1) halves_.fill_ahead(batch);
  }
  gate_.arrive(batch.epoch, batch.number, payload);
}

void Engine::withdraw(std::uint32_t epoch, std::uint64_t number) {
  base::check(open_.size() > moving_, "only an entered gate is withdrawn");
  open_.pop_back();
  --entered_;
  gate_.withdraw(epoch, number);
}

bool Engine::is_brief(const Batch& batch) const {
  const auto open = std::find_if(open_.begin(), open_.end(),
                                 [&](const OpenBatch& one) { return one.batch == &batch; });
  base::check(open != open_.end(), "only an entered batch is asked about");
  const bool one_chunk = open->way == Way::halves && batch.bytes() <= site_.eager_bytes;
  return open->way == Way::nothing || open->way == Way::small || one_chunk;
}

bool Engine::is_issued(const Batch& batch) const {
  for (const OpenBatch& moving : moving()) {
    if (moving.batch == &batch) return moving.mover == nullptr || moving.mover->is_issued();
  }
  return false;
}

bool Engine::may_start() const {
  if (moving_ == 0) return true;
  const auto moves_alone = [](Way way) { return way == Way::broadcast || way == Way::all_to_all; };
  const bool own_ends = open_[moving_].batch->ends != nullptr;
  if (!site_.several_nodes() && !own_ends) return false;
  const Way next = open_[moving_].way;
  std::size_t pipelined = is_pipelined(next) ? 1 : 0;
  for (const OpenBatch& before : moving()) {
    if (moves_alone(before.way)) return false;
    if (is_pipelined(before.way)) ++pipelined;
  }
  return !moves_alone(next) && pipelined <= Pipelines::allreduces_at_once;
}

void Engine::start() {
  base::check(open_.size() > moving_ && may_start(), "batches move behind their gates, in order");
  OpenBatch& next = open_[moving_++];
  gate_.close(next.batch->epoch, next.batch->number);
  next.mover = start(next);
}

Mover* Engine::start(OpenBatch& next) {
  const Batch& batch = *next.batch;
  DeviceGroup* const group =
      batch.ends != nullptr && grouping_ != nullptr ? grouping_->find(next.sequence) : nullptr;
  if (next.way == Way::pipeline && batch.may_group && group != nullptr) {
    next.way = Way::group;
    return &next.pipelines->start_group_allreduce(batch, *group);
  }
  if (next.way == Way::halves && memory_.are_all_in_arenas(next.sequence)) next.way = Way::pipeline;
  switch (next.way) {
    case Way::nothing:
    case Way::small:
    case Way::group:
      return nullptr;
    case Way::halves:
      halves_.start(batch);
      return &halves_;
    case Way::pipeline:
      return &next.pipelines->start_allreduce(batch, next.sequence);
    case Way::broadcast:
      return &next.pipelines->start_broadcast(batch, next.sequence);
    case Way::all_to_all:
      return &next.pipelines->start_all_to_all(batch);
  }
  return nullptr;
}

bool Engine::linger() const {
  if (site_.several_nodes() || tuning_.sums_together) return false;
  // Other batches take so long that a moment more or less does not matter.
  const bool halves = moving_ > 0 && open_.front().way == Way::halves;
  if (moving_ > 0 ? !halves : !gate_.is_open()) return false;
  for (int look = 0; look < most_looks; ++look) {
    if (halves ? halves_.may_step() : gate_.has_node_arrived()) return true;
    base::spin_pause();
  }
  return false;
}

Progress Engine::step() {
  if (moving_ == 0) return Progress::done;
  for (std::size_t i = 1; i < moving_; ++i) {
    const OpenBatch& behind = open_[i];
    if (behind.batch->ends != nullptr && behind.mover != nullptr && !behind.over) {
      behind.mover->drive_device();
    }
  }
  const Progress progress = move(open_.front());
  if (progress == Progress::done) {
    open_.erase(open_.begin());
    --moving_;
    return progress;
  }
  for (std::size_t i = 1; progress == Progress::waiting && i < moving_; ++i) {
    if (move_behind(open_[i])) return Progress::moved;
  }
  return progress;
}

/// Moves a batch that may end only after an earlier one. If its data has moved, that is noted, and
/// the batch ends in its turn.
bool Engine::move_behind(OpenBatch& moving) {
  if (moving.way == Way::small) gate_.poll_delivered(moving.sequence);
  if (moving.mover == nullptr || moving.over) return false;
  const Progress progress = move(moving);
  moving.over = progress == Progress::done;
  return progress != Progress::waiting;
}

Progress Engine::move(const OpenBatch& moving) {
  if (moving.mover != nullptr) return moving.mover->step();
  if (moving.way == Way::nothing) return Progress::done;
  if (!gate_.poll_delivered(moving.sequence)) return Progress::waiting;
  small_.finish(*moving.batch, moving.sequence);
  return Progress::done;
}

bool Engine::is_polling() const {
  const auto polls = [](const OpenBatch& moving) {
    return moving.mover != nullptr && moving.mover->is_polling();
  };
  return gate_.is_polling() || std::any_of(moving().begin(), moving().end(), polls);
}

bool Engine::is_copying() const {
  return std::any_of(moving().begin(), moving().end(), [](const OpenBatch& moving) {
    return moving.mover != nullptr && moving.mover->is_copying();
  });
}

std::size_t Engine::buffer_bytes() const {
  return gate_.buffer_bytes() + host_.buffer_bytes() + small_.buffer_bytes() +
         (own_ ? own_->buffer_bytes() : 0);
}

std::size_t Engine::most_buffer_bytes(const topology::Topology& topology, const Tuning& tuning) {
  // The most bytes by which a slice is rounded up, and the least room in an exchange's inbox for
  // one sender.
  constexpr std::size_t rounding = 1024;
  constexpr std::size_t least_inbox = std::size_t{11} << 10;
  const auto nodes = static_cast<std::size_t>(topology.node_count());
  if (nodes == 1) return tuning.eager_bytes;
  return tuning.eager_bytes + LeaderGate::most_buffer_bytes(nodes) +
         tuning.slots * ((tuning.slice_bytes + rounding) / 2 * 3 + nodes * least_inbox);
}

std::string Engine::describe() const {
  std::string text = gate_.describe();
  if (moving_ == 0) return text.empty() ? "no gate is open and no data moves" : text;
  for (const OpenBatch& moving : moving()) {
    if (!text.empty()) text += "; ";
    text += fmt::format("batch {} of epoch {} moves: {}", moving.batch->number, moving.batch->epoch,
                        moving.mover == nullptr ? "one step is left" : moving.mover->describe());
  }
  return text;
}

}  // namespace tutti::collective
