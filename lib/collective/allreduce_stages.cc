// Allreduce's stages: what each does with a chunk, or with a stretch of one.
#include "collective/allreduce.h"
#include "tutti/shard.h"

namespace tutti::collective {

using observe::Stage;

topology::Range Allreduce::slice(std::uint64_t chunk) const {
  if (sums_all_) return {0, layout_.size(chunk)};
  return layout_.slice(chunk, topology_.local_index());
}

std::byte* Allreduce::result(std::uint64_t chunk, std::size_t element) const {
  return memory_.staging_out(chunks().number(chunk)) + element * width_;
}

bool Allreduce::staging_is_free(shm::Flag shm::RankBlock::*last_use, std::uint64_t chunk) const {
  const std::uint64_t number = chunks().number(chunk);
  const std::size_t slots = memory_.layout().slots;
  return number < slots || memory_.least(last_use) > number - slots;
}

reduce::Kernel Allreduce::kernel(double divisor) const {
  return {batch_->dtype, batch_->dtype, batch_->op, divisor};
}

reduce::Kernel Allreduce::kernel_in_node() const {
  return kernel(several_nodes() ? batch_->divisor_in_node() : batch_->divisor);
}

bool Allreduce::copy_in_some() {
  if (in_.chunk == chunks().size() || !is_next(&shm::RankBlock::copied_in)) return false;
  if (does_gather()) return put_some();
  if (in_.element == 0 && !staging_is_free(&shm::RankBlock::reduced, in_.chunk)) return false;
  if (in_.element == 0) recorder_.begin(Stage::copy_in, in_.chunk);
  const std::size_t size = layout_.size(in_.chunk);
  // No other rank reads this rank's input to its own slice: it is summed from where it lies.
  const topology::Range own = sums_all_ ? topology::Range{size, size} : slice(in_.chunk);
  if (in_.element == own.begin) in_.element = own.end;
  const std::size_t end = in_.element < own.begin ? own.begin : size;
  const topology::Range stretch = next_stretch(in_.element, end, 2 * width_);
  std::byte* const staging = memory_.staging_in(memory_.local_index(), chunks().number(in_.chunk));
  copy_in_stretch(in_.chunk, stretch, staging + stretch.begin * width_);
  in_.element = stretch.end == own.begin ? own.end : stretch.end;
  if (in_.element == size) {
    recorder_.end(Stage::copy_in, in_.chunk);
    in_.next_chunk();
    memory_.raise(&shm::RankBlock::copied_in, chunks().number(in_.chunk));
  }
  return true;
}

/// An allgather's copy in: this rank's column of the result.
bool Allreduce::put_some() {
  if (in_.element == 0 && !staging_is_free(&shm::RankBlock::copied_out, in_.chunk)) return false;
  if (in_.element == 0) recorder_.begin(Stage::copy_in, in_.chunk);
  const topology::Range own = layout_.column(in_.chunk, topology_.rank);
  const topology::Range stretch = next_stretch(own.begin + in_.element, own.end, 2 * width_);
  copy_in_stretch(in_.chunk, stretch, result(in_.chunk, stretch.begin));
  in_.element += stretch.size();
  if (in_.element == own.size()) {
    recorder_.end(Stage::copy_in, in_.chunk);
    in_.next_chunk();
    memory_.raise(several_nodes() ? &shm::RankBlock::copied_in : &shm::RankBlock::reduced,
                  chunks().number(in_.chunk));
  }
  return true;
}

void Allreduce::copy_in_stretch(std::uint64_t chunk, topology::Range stretch, std::byte* to) {
  stores_.write(stretch.size() * width_, [&](bool around) {
    layout_.for_each_range(chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
      copy_in(*batch_, range.range, to + (range.at - stretch.begin) * width_, around);
    });
  });
}

bool Allreduce::may_sum() const {
  if (!direct() && !staging_is_free(&shm::RankBlock::copied_out, sum_.chunk)) return false;
  return shared_ || memory_.least(&shm::RankBlock::copied_in) > chunks().number(sum_.chunk);
}

bool Allreduce::sum_some() {
  if (sum_.chunk == chunks().size()) return false;
  if (sum_.element == 0) {
    if (!may_sum()) return false;
    recorder_.begin(Stage::sum, sum_.chunk);
  }
  if (does_gather()) {
    finish_slice();
    return true;
  }
  const topology::Range own = slice(sum_.chunk);
  const auto ranks = static_cast<std::size_t>(memory_.local_size());
  const topology::Range stretch =
      next_stretch(own.begin + sum_.element, own.end, width_ * (shared_ ? 2 * ranks : ranks + 1));
  if (shared_) {
    sum_shared(stretch);
  } else {
    sum_staged(stretch);
  }
  sum_.element += stretch.size();
  if (sum_.element == own.size()) finish_slice();
  return true;
}

void Allreduce::sum_staged(topology::Range stretch) {
  const auto staging = [&](int local, std::size_t at) {
    return memory_.staging_in(local, chunks().number(sum_.chunk)) + at * width_;
  };
  layout_.for_each_range(sum_.chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
    sources_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      sources_.push_back(staging(local, range.at));
    }
    if (const std::byte* const own = in_place(*batch_, range.range)) {
      sources_[static_cast<std::size_t>(memory_.local_index())] = own;
    } else if (!sums_all_) {
      copy_in(*batch_, range.range, staging(memory_.local_index(), range.at));
    }
    sum_sources(range.at, range.range);
  });
}

void Allreduce::sum_shared(topology::Range stretch) {
  layout_.for_each_range(sum_.chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
    for_each_part_range(*batch_, range.range, [&](const PartRange& part_range) {
      sources_.clear();
      for (int local = 0; local < memory_.local_size(); ++local) {
        const auto& place = memory_.descriptor(local, sequence_).places[part_range.part];
        sources_.push_back(memory_.in_arena(local, place.in + part_range.first * width_));
      }
      const std::size_t begin = range.range.begin + part_range.before;
      if (does_deliver() && direct()) {
        sum_everywhere(part_range);
      } else {
        sum_sources(range.at + part_range.before, {begin, begin + part_range.count});
      }
    });
  });
}

/// `range`: elements of the vector; `at`: where they begin in the chunk.
void Allreduce::sum_sources(std::size_t at, topology::Range range) {
  if (direct()) {
    reduce_out(*batch_, kernel_in_node(), sources_, range, streaming_);
    return;
  }
  // With several nodes this rank itself reads the sum next, to send it: leave it in the caches.
  const bool around = !several_nodes() && stores_.is_around();
  reduce::reduce(kernel_in_node(), sources_, result(sum_.chunk, at), range.size(), around);
}

std::byte* Allreduce::output(int local, const PartRange& part_range) const {
  const auto& place = memory_.descriptor(local, sequence_).places[part_range.part];
  return memory_.in_arena(local, place.out + part_range.first * width_);
}

void Allreduce::sum_everywhere(const PartRange& part_range) {
  outputs_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    outputs_.push_back(output(local, part_range));
  }
  reduce::reduce_to_all(kernel_in_node(), sources_, outputs_, part_range.count, streaming_);
}

void Allreduce::write_everywhere(topology::Range range, const std::byte* from) {
  for_each_part_range(*batch_, range, [&](const PartRange& part_range) {
    for (int local = 0; local < memory_.local_size(); ++local) {
      copy_bytes(output(local, part_range), from + part_range.before * width_,
                 part_range.count * width_, streaming_);
    }
  });
}

void Allreduce::finish_slice() {
  recorder_.end(Stage::sum, sum_.chunk);
  if (several_nodes()) start_exchange();
  sum_.next_chunk();
  if (!several_nodes()) raise_reduced();
}

void Allreduce::start_exchange() {
  recorder_.begin(Stage::between_nodes, sum_.chunk);
  const topology::Range own = slice(sum_.chunk);
  std::byte* const shard = result(sum_.chunk, own.begin);
  Exchange& exchange = this->exchange(sum_.chunk);
  if (!batch_->is_sharded()) {
    exchange.start(kernel(batch_->divisor_between()), batch_->wire, shard, own.size());
    return;
  }
  const auto& blocks = layout_.blocks(sum_.chunk, topology_.local_index());
  if (does_scatter()) {
    exchange.reduce_scatter(kernel(batch_->divisor_between()), batch_->wire, shard, blocks);
  } else {
    exchange.allgather(batch_->dtype, shard, blocks);
  }
}

bool Allreduce::exchange_some() {
  bool moved = false;
  // While the first transfer is waited for, those of later chunks are driven, too.
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    if (exchange(chunk).is_busy()) moved |= exchange(chunk).step() != Progress::waiting;
  }
  if (exchanged_ == sum_.chunk || exchange(exchanged_).is_busy()) return moved;
  if (!is_next(&shm::RankBlock::reduced)) return moved;
  if (does_deliver() && !is_next(&shm::RankBlock::copied_out)) return moved;
  recorder_.end(Stage::between_nodes, exchanged_);
  if (does_deliver()) deliver(exchanged_);
  raise_reduced();
  return true;
}

void Allreduce::deliver(std::uint64_t chunk) {
  const topology::Range own = slice(chunk);
  layout_.for_each_range(chunk, own, [&](const ChunkLayout::ChunkRange& range) {
    write_everywhere(range.range, result(chunk, range.at));
  });
  memory_.raise(&shm::RankBlock::copied_out, chunks().number(chunk + 1));
}

void Allreduce::raise_reduced() {
  ++exchanged_;
  // If nobody copies out, the others wait for the end only.
  if (shared_ && (does_deliver() || direct()) && exchanged_ < chunks().size()) return;
  memory_.raise(&shm::RankBlock::reduced, chunks().number(exchanged_));
}

/// What this rank copies out of a chunk.
topology::Range Allreduce::wanted(std::uint64_t chunk) const {
  if (does_scatter()) return layout_.column(chunk, topology_.rank);
  return {0, layout_.size(chunk)};
}

const std::byte* Allreduce::source(const ChunkLayout::ChunkRange& range) const {
  if (!shared_ || several_nodes()) return result(out_.chunk, range.at);
  const int local = topology_.local_index_of[static_cast<std::size_t>(range.rank)];
  const std::size_t begin = shard(batch_->rows.whole, range.rank, batch_->rows.ranks).begin;
  const std::uint64_t place = memory_.descriptor(local, sequence_).places[0].in;
  return memory_.in_arena(local, place + (range.range.begin - begin) * width_);
}

bool Allreduce::copy_out_some() {
  if (out_.chunk == chunks().size() || !is_next(&shm::RankBlock::copied_out)) return false;
  if (out_.element == 0 && memory_.least(&shm::RankBlock::reduced) <= chunks().number(out_.chunk)) {
    return false;
  }
  if (out_.element == 0) recorder_.begin(Stage::copy_out, out_.chunk);
  const topology::Range wanted = this->wanted(out_.chunk);
  const topology::Range stretch = next_stretch(wanted.begin + out_.element, wanted.end, 2 * width_);
  layout_.for_each_range(out_.chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
    copy_out(*batch_, range.range, source(range), streaming_);
  });
  out_.element += stretch.size();
  if (out_.element == wanted.size()) {
    recorder_.end(Stage::copy_out, out_.chunk);
    out_.next_chunk();
    memory_.raise(&shm::RankBlock::copied_out, chunks().number(out_.chunk));
  }
  return true;
}

}  // namespace tutti::collective
