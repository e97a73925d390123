#include "collective/broadcast.h"

#include <fmt/format.h>

namespace tutti::collective {

using observe::Stage;

Broadcast::Broadcast(const topology::Topology& topology, const shm::NodeMemory& memory,
                     mpi::Communicator* communicator, const Tuning& tuning, int first_stream)
    : topology_(topology),
      memory_(memory),
      cache_bytes_(tuning.cache_bytes),
      host_(tuning.staging),
      brought_(memory.layout().slots),
      out_(memory.layout().slots) {
  if (!several_nodes()) return;
  for (int slot = 0; slot < static_cast<int>(memory.layout().slots); ++slot) {
    node_broadcasts_.push_back(std::make_unique<NodeBroadcast>(*communicator, first_stream + slot));
  }
}

void Broadcast::start(const Batch& batch, std::uint64_t sequence, std::uint64_t before) {
  batch_ = &batch;
  recorder_.set_batch(batch.epoch, batch.number);
  sequence_ = sequence;
  width_ = size_of(batch.dtype);
  chunks_ = Chunks(batch.count(), memory_.layout().slot_bytes / width_, before);
  const auto root = static_cast<std::size_t>(batch.root);
  const bool roots_node = topology_.node_of[root] == topology_.node();
  carrier_ = roots_node ? topology_.local_index_of[root] : 0;
  shared_ = !several_nodes() && memory_.descriptor(carrier_, sequence).parts > 0;
  streaming_ = batch.exceeds(cache_bytes_ / static_cast<std::size_t>(memory_.local_size()));
  ends_ = batch.ends == nullptr ? &host_ : batch.ends;
  ends_->start(batch);
  brought_.start();
  out_.start();
  shown_ = 0;
  if (!is_carrier() || shared_) {
    brought_.leave_out(chunks_.size());
    shown_ = chunks_.size();
    memory_.raise(&shm::RankBlock::reduced, chunks_.end());
  }
  memory_.raise(&shm::RankBlock::copied_in, chunks_.end());
}

Progress Broadcast::step() {
  const bool moved = copy_out_some() || show_next() || bring_some();
  if (out_.over() < chunks_.size()) return moved ? Progress::moved : Progress::waiting;
  // The other ranks read the root's own memory until they are done.
  if (!shared_ || !is_root() || memory_.least(&shm::RankBlock::copied_out) >= chunks_.end()) {
    return Progress::done;
  }
  return moved ? Progress::moved : Progress::waiting;
}

NodeBroadcast& Broadcast::node_broadcast(std::uint64_t chunk) const {
  return *node_broadcasts_[chunks_.number(chunk) % node_broadcasts_.size()];
}

std::byte* Broadcast::staging(std::uint64_t chunk) const {
  return memory_.staging_out(chunks_.number(chunk));
}

void Broadcast::start_node_broadcast(std::uint64_t chunk) {
  recorder_.begin(Stage::between_nodes, chunk);
  std::vector<int> stops;
  std::size_t me = 0;
  const int root_node = topology_.node_of[static_cast<std::size_t>(batch_->root)];
  for (int i = 0; i < topology_.node_count(); ++i) {
    const int node = (root_node + i) % topology_.node_count();
    if (node == topology_.node()) me = stops.size();
    stops.push_back(i == 0 ? batch_->root : topology_.leader(node));
  }
  node_broadcast(chunk).start(stops, me, chunks_.size() == 1,
                              {staging(chunk), chunks_.range(chunk).size() * width_});
}

/// Returns the elements that one step copies. The host takes time to copy, so a step copies few
/// elements. Ends of another kind only begin a copy, so a step begins all copies of the chunk.
topology::Range Broadcast::next_copies(std::size_t done, std::size_t end) const {
  return ends_ == &host_ ? next_stretch(done, end, 2 * width_) : topology::Range{done, end};
}

bool Broadcast::bring_some() {
  const bool moved = pass_on_brought();
  const std::uint64_t index = brought_.begun.chunk;
  if (index == chunks_.size()) return moved;
  if (brought_.begun.element == 0) {
    // The slot is free once all ranks of the node have copied its last chunk out. This rank does
    // that only after it has forwarded the chunk.
    if (!is_slot_free(memory_, &shm::RankBlock::copied_out, chunks_.number(index))) return moved;
  }
  const topology::Range chunk = chunks_.range(index);
  if (is_root()) {
    if (brought_.begun.element == 0) recorder_.begin(Stage::copy_in, index);
    const topology::Range stretch = next_copies(brought_.begun.element, chunk.size());
    const Ends::PieceIn piece{{chunk.begin + stretch.begin, chunk.begin + stretch.end},
                              staging(index) + stretch.begin * width_};
    ends_->copy_in(*batch_, {&piece, 1});
    brought_.begun.element = stretch.end;
    if (stretch.end < chunk.size()) return true;
  }
  brought_.next_chunk(ends_->mark(Ends::Side::in));
  pass_on_brought();
  return true;
}

/// Tells the next nodes of a chunk that now lies in staging memory.
bool Broadcast::pass_on_brought() {
  if (!brought_.poll_over(is_over(Ends::Side::in))) return false;
  const std::uint64_t chunk = brought_.over() - 1;
  if (is_root()) recorder_.end(Stage::copy_in, chunk);
  if (several_nodes()) start_node_broadcast(chunk);
  return true;
}

bool Broadcast::show_next() {
  // While this waits for the first transfer, it also drives those of later chunks.
  for (std::uint64_t chunk = shown_ + 1; several_nodes() && chunk < brought_.over(); ++chunk) {
    node_broadcast(chunk).poll_arrived();
  }
  if (shown_ == brought_.over()) return false;
  if (several_nodes() && !node_broadcast(shown_).poll_arrived()) return false;
  ++shown_;
  // The other ranks wait only for this rank's flag, whether or not all have started on this batch.
  memory_.mine().reduced.store(chunks_.number(shown_));
  memory_.ring_peers();
  return true;
}

bool Broadcast::poll_copy_out() const {
  const std::uint64_t chunk = out_.begun.chunk;
  if (shared_) return true;
  if (!is_carrier()) return memory_.block(carrier_).reduced.load() > chunks_.number(chunk);
  return chunk < shown_ && (!several_nodes() || node_broadcast(chunk).poll_sent());
}

bool Broadcast::copy_out_some() {
  const bool moved = raise_copied_out();
  const std::uint64_t index = out_.begun.chunk;
  if (index == chunks_.size() || (out_.begun.element == 0 && !poll_copy_out())) return moved;
  if (out_.begun.element == 0) {
    if (several_nodes() && is_carrier()) recorder_.end(Stage::between_nodes, index);
    recorder_.begin(Stage::copy_out, index);
  }
  const topology::Range chunk = chunks_.range(index);
  const topology::Range stretch = next_copies(out_.begun.element, chunk.size());
  copy_out_stretch({chunk.begin + stretch.begin, chunk.begin + stretch.end},
                   staging(index) + stretch.begin * width_);
  out_.begun.element = stretch.end;
  if (stretch.end < chunk.size()) return true;
  out_.next_chunk(ends_->mark(Ends::Side::out));
  raise_copied_out();
  return true;
}

bool Broadcast::raise_copied_out() {
  if (!out_.poll_over(is_over(Ends::Side::out))) return false;
  recorder_.end(Stage::copy_out, out_.over() - 1);
  // If the others read the root's tensor in place, the root only waits until they are done.
  if (!shared_ || out_.over() == chunks_.size()) {
    memory_.raise(&shm::RankBlock::copied_out, chunks_.number(out_.over()));
  }
  return true;
}

/// `staged` is the place of the range in staging memory.
void Broadcast::copy_out_stretch(topology::Range range, const std::byte* staged) {
  if (ends_ != &host_ || (!is_root() && !shared_)) {
    const Ends::PieceOut piece{range, staged};
    ends_->copy_out(*batch_, {&piece, 1}, streaming_);
    return;
  }
  for_each_part_range(*batch_, range, [&](const PartRange& part_range) {
    copy_out(*batch_, part_range, source(part_range), streaming_);
  });
}

const std::byte* Broadcast::source(const PartRange& part_range) const {
  const std::size_t first = part_range.first * width_;
  if (is_root()) {
    return static_cast<const std::byte*>(batch_->parts[part_range.part].ins[0]) + first;
  }
  const auto& places = memory_.descriptor(carrier_, sequence_).places;
  return memory_.in_arena(carrier_, places[part_range.part].in + first);
}

std::uint64_t Broadcast::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& broadcast : node_broadcasts_) sum += broadcast->bytes_sent();
  return sum;
}

std::string Broadcast::describe() const {
  std::string text =
      fmt::format("broadcast from rank {}: {} chunks, here brought {}, shown {}, out {}",
                  batch_->root, chunks_.size(), brought_.over(), shown_, out_.over());
  for (std::uint64_t chunk = out_.begun.chunk;
       several_nodes() && is_carrier() && chunk < brought_.over(); ++chunk) {
    text += "; " + node_broadcast(chunk).describe();
  }
  const auto carrier = topology_.local_ranks()[static_cast<std::size_t>(carrier_)];
  if (brought_.is_under_way() || out_.is_under_way()) text += "; a copy is under way";
  if (out_.begun.chunk < chunks_.size() && !is_carrier()) {
    return fmt::format("{}; chunk {} comes from rank {}", text, out_.begun.chunk, carrier);
  }
  const std::uint64_t wanted =
      out_.over() == chunks_.size() ? chunks_.end() : chunks_.number(out_.over());
  return fmt::format("{}; not copied out yet by {}", text,
                     late_ranks(topology_, memory_, &shm::RankBlock::copied_out, wanted));
}

}  // namespace tutti::collective
