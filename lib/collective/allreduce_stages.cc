// Allreduce's stages: what each does with a chunk, or a part of one.
#include "collective/allreduce.h"
#include "tutti/shard.h"

namespace tutti::collective {

using observe::Stage;

topology::Range Allreduce::slice(std::uint64_t chunk) const {
  if (sums_all_) return {0, cut_.size(chunk)};
  return cut_.slice(chunk, topology_.local_index());
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
  if (gathers()) return put_some();
  if (in_.element == 0 && !staging_is_free(&shm::RankBlock::reduced, in_.chunk)) return false;
  if (in_.element == 0) recorder_.begins(Stage::copy_in, in_.chunk);
  const std::size_t size = cut_.size(in_.chunk);
  // What the others do not sum, its own slice, a rank sums from where it is.
  const topology::Range own = sums_all_ ? topology::Range{size, size} : slice(in_.chunk);
  if (in_.element == own.begin) in_.element = own.end;
  const std::size_t end = in_.element < own.begin ? own.begin : size;
  const topology::Range part = next_part(in_.element, end, 2 * width_);
  std::byte* const staging = memory_.staging_in(memory_.local_index(), chunks().number(in_.chunk));
  copy_in_part(in_.chunk, part, staging + part.begin * width_);
  in_.element = part.end == own.begin ? own.end : part.end;
  if (in_.element == size) {
    recorder_.ends(Stage::copy_in, in_.chunk);
    in_.next_chunk();
    memory_.raise(&shm::RankBlock::copied_in, chunks().number(in_.chunk));
  }
  return true;
}

/// An allgather's copy in: this rank's column of the result.
bool Allreduce::put_some() {
  if (in_.element == 0 && !staging_is_free(&shm::RankBlock::copied_out, in_.chunk)) return false;
  if (in_.element == 0) recorder_.begins(Stage::copy_in, in_.chunk);
  const topology::Range own = cut_.column(in_.chunk, topology_.rank);
  const topology::Range part = next_part(own.begin + in_.element, own.end, 2 * width_);
  copy_in_part(in_.chunk, part, result(in_.chunk, part.begin));
  in_.element += part.size();
  if (in_.element == own.size()) {
    recorder_.ends(Stage::copy_in, in_.chunk);
    in_.next_chunk();
    memory_.raise(several_nodes() ? &shm::RankBlock::copied_in : &shm::RankBlock::reduced,
                  chunks().number(in_.chunk));
  }
  return true;
}

void Allreduce::copy_in_part(std::uint64_t chunk, topology::Range part, std::byte* to) {
  stores_.write(part.size() * width_, [&](bool around) {
    cut_.for_each_run(chunk, part, [&](const Cut::Run& run) {
      copy_in(*batch_, run.range, to + (run.at - part.begin) * width_, around);
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
    recorder_.begins(Stage::sum, sum_.chunk);
  }
  if (gathers()) {
    finish_slice();
    return true;
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
  const auto staging = [&](int local, std::size_t at) {
    return memory_.staging_in(local, chunks().number(sum_.chunk)) + at * width_;
  };
  cut_.for_each_run(sum_.chunk, part, [&](const Cut::Run& run) {
    sources_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      sources_.push_back(staging(local, run.at));
    }
    if (const std::byte* const own = in_place(*batch_, run.range)) {
      sources_[static_cast<std::size_t>(memory_.local_index())] = own;
    } else if (!sums_all_) {
      copy_in(*batch_, run.range, staging(memory_.local_index(), run.at));
    }
    sum_sources(run.at, run.range);
  });
}

void Allreduce::sum_shared(topology::Range part) {
  cut_.for_each_run(sum_.chunk, part, [&](const Cut::Run& run) {
    for_each_segment(*batch_, run.range, [&](const Segment& segment) {
      sources_.clear();
      for (int local = 0; local < memory_.local_size(); ++local) {
        const auto& place = memory_.descriptor(local, sequence_).places[segment.piece];
        sources_.push_back(memory_.in_arena(local, place.in + segment.first * width_));
      }
      const std::size_t begin = run.range.begin + segment.before;
      if (delivers() && direct()) {
        sum_everywhere(segment);
      } else {
        sum_sources(run.at + segment.before, {begin, begin + segment.count});
      }
    });
  });
}

/// `at`: the place in the chunk of the vector's elements `range`.
void Allreduce::sum_sources(std::size_t at, topology::Range range) {
  if (direct()) {
    reduce_out(*batch_, kernel_in_node(), sources_, range, streaming_);
    return;
  }
  // What goes to other nodes is read next by the same processor.
  const bool around = !several_nodes() && stores_.around();
  reduce::reduce(kernel_in_node(), sources_, result(sum_.chunk, at), range.size(), around);
}

std::byte* Allreduce::output(int local, const Segment& segment) const {
  const auto& place = memory_.descriptor(local, sequence_).places[segment.piece];
  return memory_.in_arena(local, place.out + segment.first * width_);
}

void Allreduce::sum_everywhere(const Segment& segment) {
  outputs_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    outputs_.push_back(output(local, segment));
  }
  reduce::reduce_to_all(kernel_in_node(), sources_, outputs_, segment.count, streaming_);
}

void Allreduce::write_everywhere(topology::Range range, const std::byte* from) {
  for_each_segment(*batch_, range, [&](const Segment& segment) {
    for (int local = 0; local < memory_.local_size(); ++local) {
      copy_bytes(output(local, segment), from + segment.before * width_, segment.count * width_,
                 streaming_);
    }
  });
}

void Allreduce::finish_slice() {
  recorder_.ends(Stage::sum, sum_.chunk);
  if (several_nodes()) start_exchange();
  sum_.next_chunk();
  if (!several_nodes()) raise_reduced();
}

void Allreduce::start_exchange() {
  recorder_.begins(Stage::between_nodes, sum_.chunk);
  const topology::Range own = slice(sum_.chunk);
  std::byte* const shard = result(sum_.chunk, own.begin);
  Exchange& exchange = this->exchange(sum_.chunk);
  if (!batch_->sharded()) {
    exchange.start(kernel(batch_->divisor_between()), batch_->wire, shard, own.size());
    return;
  }
  const auto& parts = cut_.parts(sum_.chunk, topology_.local_index());
  if (scatters()) {
    exchange.scatter(kernel(batch_->divisor_between()), batch_->wire, shard, parts);
  } else {
    exchange.spread(batch_->dtype, shard, parts);
  }
}

bool Allreduce::exchange_some() {
  bool moved = false;
  // Later chunks' transfers move on, too, while the first is waited for.
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    if (exchange(chunk).busy()) moved |= exchange(chunk).step() != Progress::waiting;
  }
  if (exchanged_ == sum_.chunk || exchange(exchanged_).busy()) return moved;
  if (!is_next(&shm::RankBlock::reduced)) return moved;
  if (delivers() && !is_next(&shm::RankBlock::copied_out)) return moved;
  recorder_.ends(Stage::between_nodes, exchanged_);
  if (delivers()) deliver(exchanged_);
  raise_reduced();
  return true;
}

void Allreduce::deliver(std::uint64_t chunk) {
  const topology::Range own = slice(chunk);
  cut_.for_each_run(
      chunk, own, [&](const Cut::Run& run) { write_everywhere(run.range, result(chunk, run.at)); });
  memory_.raise(&shm::RankBlock::copied_out, chunks().number(chunk + 1));
}

void Allreduce::raise_reduced() {
  ++exchanged_;
  // Shared, and copied out by nobody, only the end is waited for.
  if (shared_ && (delivers() || direct()) && exchanged_ < chunks().size()) return;
  memory_.raise(&shm::RankBlock::reduced, chunks().number(exchanged_));
}

/// What this rank copies out of a chunk.
topology::Range Allreduce::wanted(std::uint64_t chunk) const {
  if (scatters()) return cut_.column(chunk, topology_.rank);
  return {0, cut_.size(chunk)};
}

const std::byte* Allreduce::source(const Cut::Run& run) const {
  if (!shared_ || several_nodes()) return result(out_.chunk, run.at);
  const int local = topology_.local_index_of[static_cast<std::size_t>(run.rank)];
  const std::size_t begin = shard(batch_->rows.whole, run.rank, batch_->rows.ranks).begin;
  const std::uint64_t place = memory_.descriptor(local, sequence_).places[0].in;
  return memory_.in_arena(local, place + (run.range.begin - begin) * width_);
}

bool Allreduce::copy_out_some() {
  if (out_.chunk == chunks().size() || !is_next(&shm::RankBlock::copied_out)) return false;
  if (out_.element == 0 && memory_.least(&shm::RankBlock::reduced) <= chunks().number(out_.chunk)) {
    return false;
  }
  if (out_.element == 0) recorder_.begins(Stage::copy_out, out_.chunk);
  const topology::Range wanted = this->wanted(out_.chunk);
  const topology::Range part = next_part(wanted.begin + out_.element, wanted.end, 2 * width_);
  cut_.for_each_run(out_.chunk, part, [&](const Cut::Run& run) {
    copy_out(*batch_, run.range, source(run), streaming_);
  });
  out_.element += part.size();
  if (out_.element == wanted.size()) {
    recorder_.ends(Stage::copy_out, out_.chunk);
    out_.next_chunk();
    memory_.raise(&shm::RankBlock::copied_out, chunks().number(out_.chunk));
  }
  return true;
}

}  // namespace tutti::collective
