#include "collective/halves.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/gate_word.h"

namespace tutti::collective {
namespace {

using observe::Stage;

/// The size of a block. Its sum is written to the second place while the processor's nearest cache
/// still holds it from the first.
constexpr std::size_t block_bytes = std::size_t{4} << 10;

/// If the halves of a chunk are no larger, one step does all stages of the chunk. The sum touches a
/// half three times, and each other stage touches it twice.
constexpr std::size_t most_at_once = step_bytes / 7;

std::byte* output(const TensorPart& part, const PartRange& range, std::size_t width) {
  return static_cast<std::byte*>(part.outs.front()) + range.first * width;
}

}  // namespace

Halves::Halves(const topology::Topology& topology, const shm::NodeMemory& memory, const Site& site,
               const Tuning& tuning, std::span<std::byte> scratch)
    : topology_(topology),
      memory_(memory),
      site_(site),
      me_(memory.local_index()),
      peer_(1 - me_),
      half_bytes_(tuning.half_bytes),
      scratch_(scratch),
      ends_(tuning.staging),
      sources_(2) {}

Chunks Halves::chunks_of(const Batch& batch) const {
  return {batch.count(), 2 * half_bytes_ / size_of(batch.dtype), chunks_.end()};
}

topology::Range Halves::half(const Chunks& chunks, std::uint64_t chunk, int local) const {
  const topology::Range all = chunks.range(chunk);
  const topology::Range part = topology::shard(all.size(), 2, local, granule);
  return {all.begin + part.begin, all.begin + part.end};
}

void Halves::fill_ahead(const Batch& batch) {
  recorder_.set_batch(batch.epoch, batch.number);
  ends_.start(batch);
  fill(batch, chunks_of(batch), 0);
  memory_.mine().gate.note_filled(gate_word(batch.epoch, batch.number));
}

void Halves::fill(const Batch& batch, const Chunks& chunks, std::uint64_t chunk) {
  recorder_.begin(Stage::copy_in, chunk);
  const Ends::PieceIn piece{half(chunks, chunk, peer_), slot(me_)};
  ends_.copy_in(batch, {&piece, 1});
  recorder_.end(Stage::copy_in, chunk);
}

void Halves::start(const Batch& batch) {
  batch_ = &batch;
  recorder_.set_batch(batch.epoch, batch.number);
  width_ = size_of(batch.dtype);
  streaming_ = is_streamed(batch, site_, false);
  chunks_ = chunks_of(batch);
  chunk_ = 0;
  const bool filled = memory_.mine().gate.filled() == gate_word(batch.epoch, batch.number);
  if (!filled) ends_.start(batch);
  next_ = filled ? Next::sum : Next::fill;
}

Progress Halves::step() {
  const bool goes_on = half(me_).size() * width_ <= most_at_once;
  bool moved = false;
  if (next_ == Next::fill) {
    fill(*batch_, chunks_, chunk_);
    // The other rank may wait for this flag, even if its own slot was filled before the gate.
    memory_.mine().half_filled.store(chunks_.number(chunk_) + 1);
    memory_.ring_peers();
    next_ = Next::sum;
    moved = true;
    if (!goes_on) return Progress::moved;
  }
  if (next_ == Next::sum && is_filled()) {
    recorder_.begin(Stage::sum, chunk_);
    sum();
    recorder_.end(Stage::sum, chunk_);
    memory_.raise(&shm::RankBlock::half_summed, chunks_.number(chunk_) + 1);
    next_ = Next::copy_out;
    moved = true;
    if (!goes_on) return Progress::moved;
  }
  if (next_ != Next::copy_out || !is_summed()) return moved ? Progress::moved : Progress::waiting;
  copy_out();
  if (++chunk_ == chunks_.size()) return Progress::done;
  next_ = Next::fill;
  return Progress::moved;
}

bool Halves::may_step() const {
  switch (next_) {
    case Next::fill:
      return true;
    case Next::sum:
      return is_filled();
    case Next::copy_out:
      return is_summed();
  }
  return false;
}

bool Halves::is_filled() const {
  const shm::RankBlock& theirs = memory_.block(peer_);
  const bool ahead =
      chunk_ == 0 && theirs.gate.filled() == gate_word(batch_->epoch, batch_->number);
  return ahead || theirs.half_filled.load() > chunks_.number(chunk_);
}

bool Halves::is_summed() const {
  return memory_.block(peer_).half_summed.load() > chunks_.number(chunk_);
}

void Halves::sum() {
  const topology::Range own = half(me_);
  if (!is_worth_its_own_sum(*batch_)) return sum_together(own);
  for_each_part_range(*batch_, own, [&](const PartRange& range) { sum_part(range); });
}

void Halves::sum_together(topology::Range own) {
  collective::copy_in(*batch_, own, scratch_.data());
  sources_[static_cast<std::size_t>(me_)] = scratch_.data();
  sources_[static_cast<std::size_t>(peer_)] = slot(peer_);
  reduce::reduce(batch_->kernel_in_node(false), sources_, slot(peer_), own.size());
  collective::copy_out(*batch_, own, slot(peer_), streaming_);
}

const std::byte* Halves::own_input(const PartRange& part_range) const {
  const TensorPart& part = batch_->parts[part_range.part];
  if (part.ins.size() == 1) {
    return static_cast<const std::byte*>(part.ins.front()) + part_range.first * width_;
  }
  collective::copy_in(*batch_, part_range, scratch_.data(), false);
  return scratch_.data();
}

void Halves::sum_part(const PartRange& part_range) {
  const TensorPart& part = batch_->parts[part_range.part];
  const std::byte* const mine = own_input(part_range);
  std::byte* const theirs = slot(peer_) + part_range.before * width_;
  // Streaming stores leave nothing in the caches from which the sum could be copied.
  const bool first_there = streaming_ || part.outs.empty();
  std::byte* const first = first_there ? theirs : output(part, part_range, width_);
  const reduce::Kernel kernel = batch_->kernel_in_node(false);
  const std::size_t block = block_bytes / width_;
  for (std::size_t at = 0; at < part_range.count; at += block) {
    const std::size_t count = std::min(block, part_range.count - at);
    const std::size_t before = at * width_;
    sources_[static_cast<std::size_t>(me_)] = mine + before;
    sources_[static_cast<std::size_t>(peer_)] = theirs + before;
    reduce::reduce(kernel, sources_, first + before, count);
    if (first != theirs) copy_bytes(theirs + before, first + before, count * width_, false);
  }
  collective::copy_out(*batch_, part_range, first, streaming_);
}

void Halves::copy_out() {
  recorder_.begin(Stage::copy_out, chunk_);
  collective::copy_out(*batch_, half(peer_), slot(me_), streaming_);
  recorder_.end(Stage::copy_out, chunk_);
}

std::string Halves::describe() const {
  std::string text = fmt::format("{} chunks by halves, here done {}", chunks_.size(), chunk_);
  if (next_ == Next::sum && !is_filled()) text += awaited("not copied in");
  if (next_ == Next::copy_out && !is_summed()) text += awaited("not reduced");
  return text;
}

std::string Halves::awaited(std::string_view what) const {
  return fmt::format("; chunk {} {} by rank {}", chunk_, what,
                     topology_.local_ranks()[static_cast<std::size_t>(peer_)]);
}

}  // namespace tutti::collective
