// The stages of Allreduce: what each does with a chunk, or with a part of one.
#include "collective/allreduce.h"
#include "tutti/shard.h"

namespace tutti::collective {

using observe::Stage;

topology::Range Allreduce::slice(std::uint64_t chunk) const {
  return layout_.slice(chunk, topology_.local_index());
}

std::byte* Allreduce::result(std::uint64_t chunk, std::size_t element) const {
  return memory_.staging_out(chunks().number(chunk)) + element * width_;
}

reduce::Kernel Allreduce::kernel_in_node() const {
  return batch_->kernel_in_node(site_.several_nodes());
}

Allreduce::Wanted Allreduce::wanted_in(std::uint64_t chunk) const {
  const std::size_t size = layout_.size(chunk);
  switch (route_.copy_in) {
    case Route::CopyIn::column: {
      const topology::Range own = layout_.column(chunk, topology_.rank);
      return {own, {own.end, own.end}};
    }
    case Route::CopyIn::staging:
      // No other rank reads the part of this rank's input that belongs to its own slice. This rank
      // sums it where it lies.
      return {{0, size}, slice(chunk)};
    case Route::CopyIn::whole_chunk:
    case Route::CopyIn::result:
    case Route::CopyIn::none:
      break;
  }
  return {{0, size}, {size, size}};
}

std::byte* Allreduce::copy_in_target(std::uint64_t chunk, std::size_t element) const {
  const bool to_result =
      route_.copy_in == Route::CopyIn::column || route_.copy_in == Route::CopyIn::result;
  if (to_result) return result(chunk, element);
  return memory_.staging_in(memory_.local_index(), chunks().number(chunk)) + element * width_;
}

/// Returns the elements that one step copies. The host takes time to copy, so a step copies few
/// elements. Ends of another kind only begin a copy, so a step begins all copies of the chunk.
topology::Range Allreduce::next_copies(std::size_t done, std::size_t end) const {
  return ends_ == &host_ ? next_stretch(done, end, 2 * width_) : topology::Range{done, end};
}

bool Allreduce::copy_in_some() {
  const bool moved = raise_brought();
  const std::uint64_t chunk = in_.begun.chunk;
  if (chunk == chunks().size() || !is_next(&shm::RankBlock::copied_in)) return moved;
  if (in_.begun.element == 0) {
    if (!is_slot_free(memory_, route_.released, chunks().number(chunk))) return moved;
    recorder_.begin(Stage::copy_in, chunk);
  }
  const Wanted wanted = wanted_in(chunk);
  std::size_t at = wanted.all.begin + in_.begun.element;
  if (at == wanted.skipped.begin) at = wanted.skipped.end;
  const std::size_t end = at < wanted.skipped.begin ? wanted.skipped.begin : wanted.all.end;
  const topology::Range stretch = next_copies(at, end);
  copy_in_stretch(chunk, stretch, copy_in_target(chunk, stretch.begin));
  at = stretch.end == wanted.skipped.begin ? wanted.skipped.end : stretch.end;
  in_.begun.element = at - wanted.all.begin;
  if (at == wanted.all.end) {
    in_.next_chunk(ends_->mark(Ends::Side::in));
    raise_brought();
  }
  return true;
}

bool Allreduce::raise_brought() {
  if (!is_next(route_.brought) || !in_.poll_over(is_over(Ends::Side::in))) return false;
  recorder_.end(Stage::copy_in, in_.over() - 1);
  memory_.raise(route_.brought, chunks().number(in_.over()));
  return true;
}

void Allreduce::copy_in_stretch(std::uint64_t chunk, topology::Range stretch, std::byte* to) {
  pieces_in_.clear();
  layout_.for_each_range(chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
    pieces_in_.push_back({range.range, to + (range.at - stretch.begin) * width_});
  });
  ends_->copy_in(*batch_, pieces_in_);
}

bool Allreduce::may_sum() const {
  if (route_.sum_to == Route::SumTo::result &&
      !is_slot_free(memory_, &shm::RankBlock::copied_out, chunks().number(sum_.chunk))) {
    return false;
  }
  // If there is an exchange, the flag waits behind the exchange.
  if (route_.exchange == Route::Exchange::none && !is_next(&shm::RankBlock::reduced)) return false;
  return route_.sum == Route::Sum::in_place ||
         memory_.least(&shm::RankBlock::copied_in) > chunks().number(sum_.chunk);
}

bool Allreduce::sum_some() {
  if (sum_.chunk == chunks().size()) return false;
  if (sum_.element == 0) {
    if (!may_sum()) return false;
    recorder_.begin(Stage::sum, sum_.chunk);
  }
  if (route_.sum == Route::Sum::passed_over) {
    finish_slice();
    return true;
  }
  const topology::Range own = slice(sum_.chunk);
  const auto ranks = static_cast<std::size_t>(memory_.local_size());
  const bool in_place = route_.sum == Route::Sum::in_place;
  const topology::Range stretch =
      next_stretch(own.begin + sum_.element, own.end, width_ * (in_place ? 2 * ranks : ranks + 1));
  if (in_place) {
    sum_in_place(stretch);
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
    const std::byte* const own = route_.own_in_place ? in_place(*batch_, range.range) : nullptr;
    if (own != nullptr) {
      sources_[static_cast<std::size_t>(memory_.local_index())] = own;
    } else if (route_.copy_in != Route::CopyIn::whole_chunk) {
      copy_in(*batch_, range.range, staging(memory_.local_index(), range.at));
    }
    sum_sources(range.at, range.range);
  });
}

void Allreduce::sum_in_place(topology::Range stretch) {
  layout_.for_each_range(sum_.chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
    for_each_part_range(*batch_, range.range, [&](const PartRange& part_range) {
      sources_.clear();
      for (int local = 0; local < memory_.local_size(); ++local) {
        const auto& place = memory_.descriptor(local, sequence_).places[part_range.part];
        sources_.push_back(memory_.in_arena(local, place.in + part_range.first * width_));
      }
      const std::size_t begin = range.range.begin + part_range.before;
      if (route_.sum_to == Route::SumTo::all_outputs) {
        sum_everywhere(part_range);
      } else {
        sum_sources(range.at + part_range.before, {begin, begin + part_range.count});
      }
    });
  });
}

/// `range` holds elements of the vector. They begin at `at` in the chunk.
void Allreduce::sum_sources(std::size_t at, topology::Range range) {
  if (route_.sum_to == Route::SumTo::own_outputs) {
    reduce_out(*batch_, kernel_in_node(), sources_, range, route_.streaming);
    return;
  }
  // With several nodes this rank reads the sum next, to send it, so the sum stays in the caches. If
  // a GPU copies the sum out, no processor reads it.
  const bool around =
      route_.exchange == Route::Exchange::none && (ends_ != &host_ || host_.is_around());
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
  reduce::reduce_to_all(kernel_in_node(), sources_, outputs_, part_range.count, route_.streaming);
}

void Allreduce::write_everywhere(topology::Range range, const std::byte* from) {
  for_each_part_range(*batch_, range, [&](const PartRange& part_range) {
    for (int local = 0; local < memory_.local_size(); ++local) {
      copy_bytes(output(local, part_range), from + part_range.before * width_,
                 part_range.count * width_, route_.streaming);
    }
  });
}

void Allreduce::finish_slice() {
  recorder_.end(Stage::sum, sum_.chunk);
  const bool exchanges = route_.exchange != Route::Exchange::none;
  if (exchanges) start_exchange();
  sum_.next_chunk();
  if (!exchanges) raise_reduced();
}

void Allreduce::start_exchange() {
  recorder_.begin(Stage::between_nodes, sum_.chunk);
  const topology::Range own = slice(sum_.chunk);
  std::byte* const shard = result(sum_.chunk, own.begin);
  Exchange& exchange = this->exchange(sum_.chunk);
  const auto blocks = [&]() -> const auto& {
    return layout_.blocks(sum_.chunk, topology_.local_index());
  };
  const reduce::Kernel between = batch_->kernel_between();
  switch (route_.exchange) {
    case Route::Exchange::none:
      return;
    case Route::Exchange::allreduce:
      return exchange.start(between, batch_->wire, shard, own.size());
    case Route::Exchange::reduce_scatter:
      return exchange.reduce_scatter(between, batch_->wire, shard, blocks());
    case Route::Exchange::allgather:
      return exchange.allgather(batch_->dtype, shard, blocks());
  }
}

bool Allreduce::exchange_some() {
  bool moved = false;
  // While this waits for the first transfer, it also drives those of later chunks.
  for (std::uint64_t chunk = exchanged_; chunk < sum_.chunk; ++chunk) {
    if (exchange(chunk).is_busy()) moved |= exchange(chunk).step() != Progress::waiting;
  }
  if (exchanged_ == sum_.chunk || exchange(exchanged_).is_busy()) return moved;
  if (!is_next(&shm::RankBlock::reduced)) return moved;
  if (route_.delivers && !is_next(&shm::RankBlock::copied_out)) return moved;
  recorder_.end(Stage::between_nodes, exchanged_);
  if (route_.delivers) deliver(exchanged_);
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
  if (route_.reduced_at_the_end && exchanged_ < chunks().size()) return;
  memory_.raise(&shm::RankBlock::reduced, chunks().number(exchanged_));
}

/// The elements of a chunk that this rank copies out.
topology::Range Allreduce::wanted_out(std::uint64_t chunk) const {
  if (route_.own_column_out) return layout_.column(chunk, topology_.rank);
  return {0, layout_.size(chunk)};
}

const std::byte* Allreduce::source(const ChunkLayout::ChunkRange& range) const {
  if (route_.copy_out == Route::CopyOut::result) return result(out_.begun.chunk, range.at);
  const int local = topology_.local_index_of[static_cast<std::size_t>(range.rank)];
  const std::size_t begin = shard(batch_->rows.whole, range.rank, batch_->rows.ranks).begin;
  const std::uint64_t place = memory_.descriptor(local, sequence_).places[0].in;
  return memory_.in_arena(local, place + (range.range.begin - begin) * width_);
}

bool Allreduce::copy_out_some() {
  const bool moved = raise_copied_out();
  const std::uint64_t chunk = out_.begun.chunk;
  if (chunk == chunks().size() || !is_next(&shm::RankBlock::copied_out)) return moved;
  if (out_.begun.element == 0) {
    if (memory_.least(&shm::RankBlock::reduced) <= chunks().number(chunk)) return moved;
    recorder_.begin(Stage::copy_out, chunk);
  }
  const topology::Range wanted = wanted_out(chunk);
  const topology::Range stretch = next_copies(wanted.begin + out_.begun.element, wanted.end);
  pieces_out_.clear();
  layout_.for_each_range(chunk, stretch, [&](const ChunkLayout::ChunkRange& range) {
    pieces_out_.push_back({range.range, source(range)});
  });
  ends_->copy_out(*batch_, pieces_out_, route_.streaming);
  out_.begun.element += stretch.size();
  if (out_.begun.element == wanted.size()) {
    out_.next_chunk(ends_->mark(Ends::Side::out));
    raise_copied_out();
  }
  return true;
}

bool Allreduce::raise_copied_out() {
  if (!out_.poll_over(is_over(Ends::Side::out))) return false;
  recorder_.end(Stage::copy_out, out_.over() - 1);
  memory_.raise(&shm::RankBlock::copied_out, chunks().number(out_.over()));
  return true;
}

}  // namespace tutti::collective
