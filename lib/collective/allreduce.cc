#include "collective/allreduce.h"

#include <fmt/format.h>

#include "base/failure.h"

namespace tutti::collective {
namespace {

/// Slices begin on a cache line whatever the dtype, so that no two ranks write the same line.
constexpr std::size_t granule = 64;

}  // namespace

Allreduce::Allreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
                     mpi::Communicator* communicator, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      lanes_(topology.lanes()),
      cache_bytes_(tuning.cache_bytes),
      block_(step_bytes) {
  if (!several_nodes() || !in_a_lane()) return;
  const auto lane = static_cast<std::size_t>(lanes_);
  // A granule of the widest elements more, and one for the chunk's own rounding.
  const std::size_t most = memory.layout().slot_bytes / lane + 2 * granule * 8;
  for (std::size_t slot = 0; slot < memory.layout().slots; ++slot) {
    exchanges_.push_back(std::make_unique<Exchange>(
        *communicator, topology.kin(topology.local_index()),
        static_cast<std::size_t>(topology.node()), topology::joins_of_uneven_nodes(topology), most,
        static_cast<int>(slot)));
  }
}

void Allreduce::start(const Batch& batch, std::uint64_t sequence, std::uint64_t before) {
  batch_ = &batch;
  sequence_ = sequence;
  width_ = size_of(batch.dtype);
  chunks_ = Chunks(batch.count(), memory_.layout().slot_bytes / width_, before);
  streaming_ = batch.exceeds(cache_bytes_ / static_cast<std::size_t>(memory_.local_size()));
  shared_ = all_in_arenas();
  in_ = sum_ = out_ = {};
  exchanged_ = 0;
  if (shared_) {
    in_.chunk = out_.chunk = chunks_.size();
    memory_.raise(&shm::RankBlock::copied_in, chunks_.end());
    // Between nodes a lane's slice stays in the result's slot until the lane delivers it.
    if (!several_nodes() || !in_a_lane()) {
      memory_.raise(&shm::RankBlock::copied_out, chunks_.end());
    }
  }
  if (!in_a_lane()) {
    sum_.chunk = exchanged_ = chunks_.size();
    memory_.raise(&shm::RankBlock::reduced, chunks_.end());
  }
}

Progress Allreduce::step() {
  // The later stages first: they free what the earlier ones wait for.
  const bool moved = copy_out_some() || exchange_some() || sum_some() || copy_in_some();
  if (out_.chunk < chunks_.size()) return moved ? Progress::moved : Progress::waiting;
  // Copied out: everything has been reduced. Shared: others may still read this rank's inputs and
  // write its outputs.
  if (!shared_ || memory_.least(&shm::RankBlock::reduced) >= chunks_.end()) return Progress::done;
  return moved ? Progress::moved : Progress::waiting;
}

bool Allreduce::all_in_arenas() const {
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (memory_.descriptor(local, sequence_).pieces == 0) return false;
  }
  return true;
}

topology::Range Allreduce::slice(std::uint64_t chunk) const {
  if (!in_a_lane()) return {};
  return topology::shard(chunks_.range(chunk).size(), lanes_, topology_.local_index(), granule);
}

Exchange& Allreduce::exchange(std::uint64_t chunk) const {
  return *exchanges_[chunks_.number(chunk) % exchanges_.size()];
}

std::byte* Allreduce::result(std::uint64_t chunk, std::size_t element) const {
  return memory_.staging_out(chunks_.number(chunk)) + element * width_;
}

bool Allreduce::staging_is_free(shm::Flag shm::RankBlock::*last_use, std::uint64_t chunk) const {
  const std::uint64_t number = chunks_.number(chunk);
  const std::size_t slots = memory_.layout().slots;
  return number < slots || memory_.least(last_use) > number - slots;
}

reduce::Kernel Allreduce::kernel(double divisor) const {
  return {batch_->dtype, batch_->dtype, batch_->op, divisor};
}

bool Allreduce::copy_in_some() {
  if (in_.chunk == chunks_.size()) return false;
  if (in_.element == 0 && !staging_is_free(&shm::RankBlock::reduced, in_.chunk)) return false;
  const topology::Range chunk = chunks_.range(in_.chunk);
  // Its own slice a rank sums from where it is.
  const topology::Range own = slice(in_.chunk);
  if (in_.element == own.begin) in_.element = own.end;
  const std::size_t end = in_.element < own.begin ? own.begin : chunk.size();
  const topology::Range part = next_part(in_.element, end, 2 * width_);
  std::byte* const staging =
      memory_.staging_in(memory_.local_index(), chunks_.number(in_.chunk)) + part.begin * width_;
  copy_in(*batch_, {chunk.begin + part.begin, chunk.begin + part.end}, staging);
  in_.element = part.end == own.begin ? own.end : part.end;
  if (in_.element == chunk.size()) {
    in_.next_chunk();
    memory_.raise(&shm::RankBlock::copied_in, chunks_.number(in_.chunk));
  }
  return true;
}

bool Allreduce::sum_some() {
  if (sum_.chunk == chunks_.size()) return false;
  if (sum_.element == 0) {
    const bool staging = !shared_ || several_nodes();
    if (staging && !staging_is_free(&shm::RankBlock::copied_out, sum_.chunk)) return false;
    const std::uint64_t number = chunks_.number(sum_.chunk);
    if (!shared_ && memory_.least(&shm::RankBlock::copied_in) <= number) return false;
  }
  const topology::Range own = slice(sum_.chunk);
  const auto ranks = static_cast<std::size_t>(memory_.local_size());
  const topology::Range part =
      next_part(own.begin + sum_.element, own.end, width_ * (shared_ ? 2 * ranks : ranks + 1));
  if (shared_) {
    sum_shared(part);
  } else {
    sum_staged(part);
  }
  sum_.element += part.size();
  if (sum_.element == own.size()) finish_slice();
  return true;
}

void Allreduce::sum_staged(topology::Range part) {
  const topology::Range chunk = chunks_.range(sum_.chunk);
  const topology::Range range{chunk.begin + part.begin, chunk.begin + part.end};
  sources_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    sources_.push_back(memory_.staging_in(local, chunks_.number(sum_.chunk)) + part.begin * width_);
  }
  const std::byte* own = in_place(*batch_, range);
  if (own == nullptr) {
    std::byte* const staging =
        memory_.staging_in(memory_.local_index(), chunks_.number(sum_.chunk)) + part.begin * width_;
    copy_in(*batch_, range, staging);
    own = staging;
  }
  sources_[static_cast<std::size_t>(memory_.local_index())] = own;
  // The last sum divides.
  reduce::reduce(kernel(several_nodes() ? 1 : batch_->divisor), sources_,
                 result(sum_.chunk, part.begin), part.size());
}

void Allreduce::sum_shared(topology::Range part) {
  const std::size_t begin = chunks_.range(sum_.chunk).begin;
  for_each_segment(*batch_, {begin + part.begin, begin + part.end}, [&](const Segment& segment) {
    sources_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      const auto& place = memory_.descriptor(local, sequence_).places[segment.piece];
      sources_.push_back(memory_.in_arena(local, place.in + segment.first * width_));
    }
    if (several_nodes()) {
      reduce::reduce(kernel(1), sources_, result(sum_.chunk, part.begin + segment.before),
                     segment.count);
    } else {
      reduce::reduce(kernel(batch_->divisor), sources_, block_.data(), segment.count);
      write_everywhere(segment, block_.data());
    }
  });
}

void Allreduce::write_everywhere(const Segment& segment, const std::byte* from) {
  for (int local = 0; local < memory_.local_size(); ++local) {
    const auto& place = memory_.descriptor(local, sequence_).places[segment.piece];
    copy_bytes(memory_.in_arena(local, place.out + segment.first * width_), from,
               segment.count * width_, streaming_);
  }
}

void Allreduce::finish_slice() {
  if (several_nodes()) {
    const topology::Range own = slice(sum_.chunk);
    exchange(sum_.chunk)
        .start(kernel(batch_->divisor), batch_->wire, result(sum_.chunk, own.begin), own.size());
  }
  sum_.next_chunk();
  if (!several_nodes()) raise_reduced();
}

bool Allreduce::exchange_some() {
  bool moved = false;
  // Later chunks' transfers move on, too, while the first is waited for.
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    if (exchange(chunk).busy()) moved |= exchange(chunk).step() != Progress::waiting;
  }
  if (exchanged_ == sum_.chunk || exchange(exchanged_).busy()) return moved;
  if (shared_) deliver(exchanged_);
  raise_reduced();
  return true;
}

void Allreduce::deliver(std::uint64_t chunk) {
  const topology::Range own = slice(chunk);
  const std::size_t begin = chunks_.range(chunk).begin;
  for_each_segment(*batch_, {begin + own.begin, begin + own.end}, [&](const Segment& segment) {
    write_everywhere(segment, result(chunk, own.begin + segment.before));
  });
  memory_.raise(&shm::RankBlock::copied_out, chunks_.number(chunk + 1));
}

void Allreduce::raise_reduced() {
  ++exchanged_;
  // Shared and on one node, only the end is waited for.
  if (shared_ && exchanged_ < chunks_.size()) return;
  memory_.raise(&shm::RankBlock::reduced, chunks_.number(exchanged_));
}

bool Allreduce::copy_out_some() {
  if (out_.chunk == chunks_.size()) return false;
  if (out_.element == 0 && memory_.least(&shm::RankBlock::reduced) <= chunks_.number(out_.chunk)) {
    return false;
  }
  const topology::Range chunk = chunks_.range(out_.chunk);
  const topology::Range part = next_part(out_.element, chunk.size(), 2 * width_);
  copy_out(*batch_, {chunk.begin + part.begin, chunk.begin + part.end},
           result(out_.chunk, part.begin), streaming_);
  out_.element = part.end;
  if (out_.element == chunk.size()) {
    out_.next_chunk();
    memory_.raise(&shm::RankBlock::copied_out, chunks_.number(out_.chunk));
  }
  return true;
}

std::uint64_t Allreduce::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& exchange : exchanges_) sum += exchange->bytes_sent();
  return sum;
}

std::size_t Allreduce::buffer_bytes() const {
  std::size_t sum = block_.capacity();
  for (const auto& exchange : exchanges_) sum += exchange->buffer_bytes();
  return sum;
}

std::string Allreduce::describe() const {
  const auto late = [&](shm::Flag shm::RankBlock::*flag, std::uint64_t chunk) {
    return late_ranks(topology_, memory_, flag, chunks_.number(chunk) + 1);
  };
  std::string text = fmt::format("{} chunks, here copied in {}, summed {}, exchanged {}, out {}",
                                 chunks_.size(), in_.chunk, sum_.chunk, exchanged_, out_.chunk);
  if (shared_ && exchanged_ == chunks_.size()) {
    return fmt::format("{}; not done with their slices: {}", text,
                       late(&shm::RankBlock::reduced, chunks_.size() - 1));
  }
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    text += "; " + exchange(chunk).describe();
  }
  if (out_.chunk < sum_.chunk) {
    text += fmt::format("; chunk {} not reduced by {}", out_.chunk,
                        late(&shm::RankBlock::reduced, out_.chunk));
  }
  if (!shared_ && sum_.chunk < in_.chunk) {
    text += fmt::format("; chunk {} not copied in by {}", sum_.chunk,
                        late(&shm::RankBlock::copied_in, sum_.chunk));
  }
  return text;
}

}  // namespace tutti::collective
