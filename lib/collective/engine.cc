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
    : topology_(topology),
      memory_(memory),
      lanes_(topology.lanes()),
      small_sum_(memory.layout().small_bytes) {
  if (!several_nodes()) return;
  const auto node = static_cast<std::size_t>(topology.node());
  if (topology.is_leader()) {
    leader_gate_ = std::make_unique<LeaderGate>(*gate, topology.kin(0), node);
  }
  const int slots = static_cast<int>(memory.layout().slots);
  for (int stream = 0; stream < slots; ++stream) {
    if (in_a_lane()) {
      exchanges_.push_back(std::make_unique<Exchange>(*data, topology.kin(topology.local_index()),
                                                      node, tuning.slice_bytes, stream));
    }
    relays_.push_back(std::make_unique<Relay>(*data, slots + stream));
  }
}

bool Engine::carries() const {
  const bool roots_node =
      topology_.node_of[static_cast<std::size_t>(batch_->root)] == topology_.node();
  return roots_node ? is_root() : topology_.is_leader();
}

bool Engine::polling() const {
  if (!several_nodes()) return false;
  if (gate_open_ && leader_gate_) return true;
  return batch_ != nullptr && reduced_ < chunks_;
}

std::uint64_t Engine::bytes_between_nodes() const {
  std::uint64_t sum = 0;
  for (const auto& exchange : exchanges_) sum += exchange->bytes_sent();
  for (const auto& relay : relays_) sum += relay->bytes_sent();
  return sum;
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
  gate_open_ = true;
  arrived_between_nodes_ = false;
  describe_mine(batch, sequence);
  if (is_small(batch)) {
    // Into memory of ours, so that the closing gate itself says that everyone's data is there.
    copy_in(batch, 0, batch.count(), memory_.small(memory_.local_index(), sequence));
  }
  memory_.mine().gate.store(gate_word(batch.epoch, batch.number));
  memory_.ring_peers();
}

bool Engine::closed(std::uint32_t epoch, std::uint64_t number) {
  const std::uint64_t word = gate_word(epoch, number);
  const auto passed = [&](std::uint64_t theirs) {
    // Exactly this epoch; a rank further ahead in it has passed this gate.
    return theirs >> number_bits == word >> number_bits && theirs >= word;
  };
  if (several_nodes() && !leader_gate_) {
    if (!passed(memory_.node_closed().load())) return false;
  } else {
    for (int local = 0; local < memory_.local_size(); ++local) {
      if (!passed(memory_.block(local).gate.load())) return false;
    }
    if (leader_gate_ && !all_nodes_at(epoch, number)) return false;
  }
  gate_open_ = false;
  return true;
}

bool Engine::all_nodes_at(std::uint32_t epoch, std::uint64_t number) {
  if (!arrived_between_nodes_) {
    arrived_between_nodes_ = true;
    leader_gate_->arrive(epoch, number);
  }
  if (!leader_gate_->closed()) return false;
  memory_.node_closed().store(gate_word(epoch, number));
  memory_.ring_peers();
  return true;
}

void Engine::forget_gate() {
  gate_open_ = false;
  if (leader_gate_) leader_gate_->withdraw();
}

void Engine::withdraw(std::uint32_t epoch, std::uint64_t number) {
  static_cast<void>(epoch), static_cast<void>(number);
  base::check(ahead_ > 0, "only an entered gate is withdrawn");
  --ahead_;
  forget_gate();
}

bool Engine::all_in_arenas(std::uint64_t sequence) const {
  for (int local = 0; local < memory_.local_size(); ++local) {
    if (memory_.block(local).descriptors[sequence % shm::batches_alive].in_arena == 0) return false;
  }
  return true;
}

bool Engine::is_small(const Batch& batch) const {
  return !several_nodes() && batch.kind == Batch::Kind::allreduce &&
         batch.bytes() <= memory_.layout().small_bytes;
}

Engine::Path Engine::path_of(const Batch& batch) const {
  if (batch.count() == 0) return Path::nothing;
  if (batch.kind == Batch::Kind::broadcast) return Path::staged;
  if (is_small(batch)) return Path::small;
  return several_nodes() || !all_in_arenas(sequence_) ? Path::staged : Path::direct;
}

void Engine::start(const Batch& batch) {
  base::check(batch_ == nullptr && ahead_ > 0, "one batch moves at a time, behind its gate");
  // The gate of this batch may have been closed by the coordinator instead.
  if (ahead_ == 1) forget_gate();
  --ahead_;
  sequence_ = started_++;
  batch_ = &batch;
  path_ = path_of(batch);
  count_ = batch.count();
  const std::size_t width = size_of(batch.dtype);
  chunk_elements_ = std::max<std::size_t>(memory_.layout().slot_bytes / width, 1);
  const bool chunked = path_ == Path::staged || path_ == Path::direct;
  chunks_ = chunked ? (count_ + chunk_elements_ - 1) / chunk_elements_ : 0;
  in_ = summed_ = reduced_ = out_ = 0;
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
  reduce::reduce(kernel, sources_, small_sum_.data(), count_);
  copy_out(batch, 0, count_, small_sum_.data());
  return Progress::done;
}

Progress Engine::step_staged() {
  // The later stages first: they free what the earlier ones wait for.
  if (copy_out_next() || exchange_next() || sum_next() || copy_in_next()) {
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
  } else {
    if (is_root()) copy_in(*batch_, range.begin, range.size(), memory_.staging_out(number));
    if (several_nodes() && carries()) start_relay(number, range);
  }
  advance(&shm::RankBlock::copied_in, in_++);
  return true;
}

bool Engine::sum_next() {
  if (summed_ == in_) return false;
  const std::uint64_t number = chunk_number(summed_);
  if (memory_.least(&shm::RankBlock::copied_in) <= number) return false;
  if (batch_->kind == Batch::Kind::allreduce && in_a_lane()) sum_slice(number, chunk(summed_));
  ++summed_;
  return true;
}

void Engine::sum_slice(std::uint64_t number, topology::Range range) {
  const topology::Range slice =
      topology::shard(range.size(), lanes_, topology_.local_index(), granule);
  const std::size_t offset = slice.begin * size_of(batch_->dtype);
  sources_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    sources_.push_back(memory_.staging_in(local, number) + offset);
  }
  // The last sum divides.
  reduce::Kernel kernel{batch_->dtype, batch_->dtype, batch_->op,
                        several_nodes() ? 1 : batch_->divisor};
  std::byte* const sum = memory_.staging_out(number) + offset;
  reduce::reduce(kernel, sources_, sum, slice.size());
  kernel.divisor = batch_->divisor;
  if (several_nodes()) exchanges_[slot(number)]->start(kernel, batch_->wire, sum, slice.size());
}

void Engine::start_relay(std::uint64_t number, topology::Range range) {
  std::vector<int> stops;
  std::size_t me = 0;
  const int root_node = topology_.node_of[static_cast<std::size_t>(batch_->root)];
  for (int i = 0; i < topology_.node_count(); ++i) {
    const int node = (root_node + i) % topology_.node_count();
    if (node == topology_.node()) me = stops.size();
    stops.push_back(i == 0 ? batch_->root : topology_.leader(node));
  }
  relays_[slot(number)]->start(
      stops, me, chunks_ > 1, {memory_.staging_out(number), range.size() * size_of(batch_->dtype)});
}

bool Engine::between_nodes_done(std::uint64_t number) {
  if (!several_nodes()) return true;
  if (batch_->kind == Batch::Kind::broadcast) return !carries() || relays_[slot(number)]->arrived();
  return !in_a_lane() || exchanges_[slot(number)]->step() == Progress::done;
}

bool Engine::exchange_next() {
  // Later chunks' transfers move on, too, while the first is waited for.
  for (std::uint64_t later = reduced_ + 1; later < summed_; ++later) {
    between_nodes_done(chunk_number(later));
  }
  if (reduced_ == summed_ || !between_nodes_done(chunk_number(reduced_))) return false;
  advance(&shm::RankBlock::reduced, reduced_++);
  return true;
}

bool Engine::copy_out_next() {
  if (out_ == reduced_) return false;
  const std::uint64_t number = chunk_number(out_);
  if (memory_.least(&shm::RankBlock::reduced) <= number) return false;
  // The next chunk in this memory must not overwrite what is still being passed on.
  const bool relays = several_nodes() && batch_->kind == Batch::Kind::broadcast && carries();
  if (relays && !relays_[slot(number)]->sent()) return false;
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
    targets_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      const auto& theirs = memory_.block(local).descriptors[sequence_ % shm::batches_alive];
      sources_.push_back(memory_.in_arena(local, theirs.in + offset));
      targets_.push_back(memory_.in_arena(local, theirs.out + offset));
    }
    reduce::reduce({batch_->dtype, batch_->dtype, batch_->op, batch_->divisor}, sources_,
                   targets_[0], slice.size());
    for (std::size_t i = 1; i < targets_.size(); ++i) std::copy_n(targets_[0], bytes, targets_[i]);
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
  if (batch_ == nullptr) {
    return fmt::format("no data moves; {} gate(s) entered ahead; {}", ahead_,
                       leader_gate_ ? leader_gate_->describe() : "no gate between nodes here");
  }
  std::string waits;
  for (int local = 0; local < memory_.local_size(); ++local) {
    const shm::RankBlock& block = memory_.block(local);
    waits += fmt::format("; rank {}: in {}, reduced {}, out {}",
                         topology_.local_ranks()[static_cast<std::size_t>(local)],
                         block.copied_in.load(), block.reduced.load(), block.copied_out.load());
  }
  for (const auto& exchange : exchanges_) {
    if (exchange->busy()) waits += "; " + exchange->describe();
  }
  return fmt::format("batch {} of epoch {} moves: chunks {}-{}, here in {}, reduced {}, out {}{}",
                     batch_->number, batch_->epoch, chunks_before_, chunks_before_ + chunks_, in_,
                     reduced_, out_, waits);
}

}  // namespace tutti::collective
