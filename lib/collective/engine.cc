#include "collective/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure.h"

namespace tutti::collective {
namespace {

/// A gate word: the epoch, and one more than the batch, so that 0 is no gate at all.
constexpr int number_bits = 40;
std::uint64_t gate_word(std::uint32_t epoch, std::uint64_t number) {
  return (std::uint64_t{epoch} << number_bits) | (number + 1);
}

/// Slices begin on a cache line of any dtype, so that no two ranks write the same line.
constexpr std::size_t granule = 64;

}  // namespace

Engine::Engine(const topology::Topology& topology, shm::NodeMemory& memory, mpi::Communicator* data,
               mpi::Communicator* gate, const Tuning& tuning)
    : topology_(topology), memory_(memory) {
  static_cast<void>(data), static_cast<void>(gate), static_cast<void>(tuning);
}

bool Engine::is_root() const {
  return batch_->root == topology_.rank;
}

void Engine::describe_mine(const Batch& batch, std::uint64_t sequence) {
  shm::Descriptor& mine = memory_.mine().descriptors[sequence % shm::batches_alive];
  mine = {};
  if (batch.kind != Batch::Kind::allreduce || batch.pieces.size() != 1) return;
  const Piece& piece = batch.pieces.front();
  if (piece.ins.size() != 1 || piece.outs.size() != 1) return;
  const auto in = memory_.arena_offset(piece.ins[0], batch.bytes());
  const auto out = memory_.arena_offset(piece.outs[0], batch.bytes());
  if (in && out) mine = {1, *in, *out};
}

void Engine::enter(const Batch& batch) {
  // Batches before this one that have closed or will: the same number on every rank.
  const std::uint64_t sequence = started_ + ahead_++;
  describe_mine(batch, sequence);
  if (batch.kind == Batch::Kind::allreduce && batch.bytes() <= memory_.layout().small_bytes) {
    // Into memory of ours, so that the closing gate itself says that everyone's data is there.
    copy_in(batch, 0, batch.count(), memory_.small(memory_.local_index(), sequence));
  }
  memory_.mine().gate.store(gate_word(batch.epoch, batch.number));
  memory_.ring_peers();
}

bool Engine::closed(std::uint32_t epoch, std::uint64_t number) {
  const std::uint64_t word = gate_word(epoch, number);
  for (int local = 0; local < memory_.local_size(); ++local) {
    // Exactly this epoch; a rank further ahead in it has passed this gate.
    const std::uint64_t theirs = memory_.block(local).gate.load();
    if (theirs >> number_bits != word >> number_bits || theirs < word) return false;
  }
  return true;
}

void Engine::withdraw(std::uint32_t epoch, std::uint64_t number) {
  static_cast<void>(epoch), static_cast<void>(number);
  base::check(ahead_ > 0, "only an entered gate is withdrawn");
  --ahead_;
}

bool Engine::all_in_arenas(std::uint64_t sequence) const {
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (memory_.block(local).descriptors[sequence % shm::batches_alive].in_arena == 0) return false;
  }
  return true;
}

Engine::Path Engine::path_of(const Batch& batch) const {
  if (batch.count() == 0) return Path::nothing;
  if (batch.kind == Batch::Kind::broadcast) return Path::staged;
  if (batch.bytes() <= memory_.layout().small_bytes) return Path::small;
  return all_in_arenas(sequence_) ? Path::direct : Path::staged;
}

void Engine::start(const Batch& batch) {
  base::check(batch_ == nullptr && ahead_ > 0, "one batch moves at a time, behind its gate");
  --ahead_;
  sequence_ = started_++;
  batch_ = &batch;
  path_ = path_of(batch);
  count_ = batch.count();
  const std::size_t width = size_of(batch.dtype);
  chunk_elements_ = std::max<std::size_t>(memory_.layout().slot_bytes / width, 1);
  const bool chunked = path_ == Path::staged || path_ == Path::direct;
  chunks_ = chunked ? (count_ + chunk_elements_ - 1) / chunk_elements_ : 0;
  in_ = reduced_ = out_ = 0;
}

Progress Engine::step() {
  Progress progress = Progress::done;
  if (path_ == Path::small) progress = step_small();
  if (path_ == Path::staged) progress = step_staged();
  if (path_ == Path::direct) progress = step_direct();
  if (progress == Progress::done) {
    chunks_before_ += chunks_;
    batch_ = nullptr;
  }
  return progress;
}

topology::Range Engine::chunk(std::uint64_t index) const {
  const std::size_t begin = index * chunk_elements_;
  return {begin, std::min(count_, begin + chunk_elements_)};
}

void Engine::advance(shm::Flag shm::RankBlock::*flag, std::uint64_t index) {
  (memory_.mine().*flag).store(chunk_number(index) + 1);
  memory_.ring_peers();
}

Progress Engine::step_small() {
  const Batch& batch = *batch_;
  sources_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    sources_.push_back(memory_.small(local, sequence_));
  }
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor};
  if (batch.pieces.size() == 1 && batch.pieces[0].outs.size() == 1) {
    reduce::reduce(kernel, sources_, batch.pieces[0].outs[0], count_);
    return Progress::done;
  }
  alignas(64) std::byte sum[std::size_t{16} << 10];
  base::check(sizeof sum >= batch.bytes(), "a small batch fits the buffer for its sum");
  reduce::reduce(kernel, sources_, sum, count_);
  copy_out(batch, 0, count_, sum);
  return Progress::done;
}

Progress Engine::step_staged() {
  // The later stages first: they free what the earlier ones wait for.
  if (copy_out_next() || reduce_next() || copy_in_next()) {
    return out_ == chunks_ ? Progress::done : Progress::moved;
  }
  return Progress::waiting;
}

bool Engine::copy_in_next() {
  if (in_ == chunks_) return false;
  const std::uint64_t number = chunk_number(in_);
  const std::size_t slots = memory_.layout().slots;
  if (number >= slots && memory_.least(&shm::RankBlock::copied_out) < number + 1 - slots) {
    return false;
  }
  const topology::Range range = chunk(in_);
  if (batch_->kind == Batch::Kind::allreduce) {
    copy_in(*batch_, range.begin, range.size(), memory_.staging_in(memory_.local_index(), number));
  } else if (is_root()) {
    copy_in(*batch_, range.begin, range.size(), memory_.staging_out(number));
  }
  advance(&shm::RankBlock::copied_in, in_++);
  return true;
}

bool Engine::reduce_next() {
  if (reduced_ == in_) return false;
  const std::uint64_t number = chunk_number(reduced_);
  if (memory_.least(&shm::RankBlock::copied_in) <= number) return false;
  if (batch_->kind == Batch::Kind::allreduce) {
    const topology::Range slice = topology::shard(chunk(reduced_).size(), memory_.local_size(),
                                                  memory_.local_index(), granule);
    const std::size_t offset = slice.begin * size_of(batch_->dtype);
    sources_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      sources_.push_back(memory_.staging_in(local, number) + offset);
    }
    reduce::reduce({batch_->dtype, batch_->dtype, batch_->op, batch_->divisor}, sources_,
                   memory_.staging_out(number) + offset, slice.size());
  }
  advance(&shm::RankBlock::reduced, reduced_++);
  return true;
}

bool Engine::copy_out_next() {
  if (out_ == reduced_) return false;
  const std::uint64_t number = chunk_number(out_);
  if (memory_.least(&shm::RankBlock::reduced) <= number) return false;
  const topology::Range range = chunk(out_);
  copy_out(*batch_, range.begin, range.size(), memory_.staging_out(number));
  advance(&shm::RankBlock::copied_out, out_++);
  return true;
}

Progress Engine::step_direct() {
  if (reduced_ < chunks_) {
    const topology::Range range = chunk(reduced_);
    const topology::Range slice =
        topology::shard(range.size(), memory_.local_size(), memory_.local_index(), granule);
    const std::size_t offset = (range.begin + slice.begin) * size_of(batch_->dtype);
    const std::size_t bytes = slice.size() * size_of(batch_->dtype);
    sources_.clear();
    std::vector<std::byte*> outs;
    for (int local = 0; local < memory_.local_size(); ++local) {
      const auto& theirs = memory_.block(local).descriptors[sequence_ % shm::batches_alive];
      sources_.push_back(memory_.in_arena(local, theirs.in + offset));
      outs.push_back(memory_.in_arena(local, theirs.out + offset));
    }
    reduce::reduce({batch_->dtype, batch_->dtype, batch_->op, batch_->divisor}, sources_, outs[0],
                   slice.size());
    for (std::size_t i = 1; i < outs.size(); ++i) std::copy_n(outs[0], bytes, outs[i]);
    if (++reduced_ == chunks_) {
      // The other counters keep pace, so that chunk numbers stay equal for every path.
      memory_.mine().copied_in.store(chunks_before_ + chunks_);
      memory_.mine().copied_out.store(chunks_before_ + chunks_);
      advance(&shm::RankBlock::reduced, chunks_ - 1);
    }
    return Progress::moved;
  }
  return memory_.least(&shm::RankBlock::reduced) < chunks_before_ + chunks_ ? Progress::waiting
                                                                            : Progress::done;
}

std::string Engine::describe() const {
  if (batch_ == nullptr) return fmt::format("no data moves; {} gate(s) entered ahead", ahead_);
  std::string waits;
  for (int local = 0; local < memory_.local_size(); ++local) {
    const shm::RankBlock& block = memory_.block(local);
    waits += fmt::format("; rank {}: in {}, reduced {}, out {}",
                         topology_.local_ranks()[static_cast<std::size_t>(local)],
                         block.copied_in.load(), block.reduced.load(), block.copied_out.load());
  }
  return fmt::format("batch {} of epoch {} moves: chunks {}-{}, here in {}, reduced {}, out {}{}",
                     batch_->number, batch_->epoch, chunks_before_, chunks_before_ + chunks_, in_,
                     reduced_, out_, waits);
}

}  // namespace tutti::collective
