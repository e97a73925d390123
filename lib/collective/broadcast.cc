#include "collective/broadcast.h"

#include <fmt/format.h>

namespace tutti::collective {

using observe::Stage;

Broadcast::Broadcast(const topology::Topology& topology, const shm::NodeMemory& memory,
                     mpi::Communicator* communicator, const Tuning& tuning)
    : topology_(topology),
      memory_(memory),
      cache_bytes_(tuning.cache_bytes),
      stores_(tuning.staging) {
  if (!several_nodes()) return;
  for (std::size_t slot = 0; slot < memory.layout().slots; ++slot) {
    // Not the exchanges' streams, which other ranks may still be using.
    const std::size_t stream = memory.layout().slots + slot;
    node_broadcasts_.push_back(
        std::make_unique<NodeBroadcast>(*communicator, static_cast<int>(stream)));
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
  stores_.next_batch(batch.bytes() / batch.parts.size());
  brought_ = out_ = {};
  shown_ = 0;
  if (!is_carrier() || shared_) {
    brought_.chunk = shown_ = chunks_.size();
    memory_.raise(&shm::RankBlock::reduced, chunks_.end());
  }
  memory_.raise(&shm::RankBlock::copied_in, chunks_.end());
}

Progress Broadcast::step() {
  const bool moved = copy_out_some() || show_next() || bring_some();
  if (out_.chunk < chunks_.size()) return moved ? Progress::moved : Progress::waiting;
  // The others read the root's own memory until they are done.
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

bool Broadcast::bring_some() {
  if (brought_.chunk == chunks_.size()) return false;
  if (brought_.element == 0) {
    // The slot is free once all ranks of the node have copied its last chunk out. This rank does so
    // only after it has forwarded that chunk.
    const std::uint64_t number = chunks_.number(brought_.chunk);
    const std::size_t slots = memory_.layout().slots;
    if (number >= slots && memory_.least(&shm::RankBlock::copied_out) <= number - slots) {
      return false;
    }
  }
  const topology::Range chunk = chunks_.range(brought_.chunk);
  if (is_root()) {
    if (brought_.element == 0) recorder_.begin(Stage::copy_in, brought_.chunk);
    const topology::Range stretch = next_stretch(brought_.element, chunk.size(), 2 * width_);
    stores_.write(stretch.size() * width_, [&](bool around) {
      copy_in(*batch_, {chunk.begin + stretch.begin, chunk.begin + stretch.end},
              staging(brought_.chunk) + stretch.begin * width_, around);
    });
    brought_.element = stretch.end;
    if (brought_.element < chunk.size()) return true;
    recorder_.end(Stage::copy_in, brought_.chunk);
  }
  if (several_nodes()) start_node_broadcast(brought_.chunk);
  brought_.next_chunk();
  return true;
}

bool Broadcast::show_next() {
  // While the first transfer is waited for, those of later chunks are driven, too.
  for (std::uint64_t chunk = shown_ + 1; several_nodes() && chunk < brought_.chunk; ++chunk) {
    node_broadcast(chunk).poll_arrived();
  }
  if (shown_ == brought_.chunk) return false;
  if (several_nodes() && !node_broadcast(shown_).poll_arrived()) return false;
  ++shown_;
  // The others wait for this rank's flag alone, whether or not all have started on this batch.
  memory_.mine().reduced.store(chunks_.number(shown_));
  memory_.ring_peers();
  return true;
}

bool Broadcast::poll_copy_out() const {
  const std::uint64_t number = chunks_.number(out_.chunk);
  if (shared_) return true;
  if (!is_carrier()) return memory_.block(carrier_).reduced.load() > number;
  return out_.chunk < shown_ && (!several_nodes() || node_broadcast(out_.chunk).poll_sent());
}

bool Broadcast::copy_out_some() {
  if (out_.chunk == chunks_.size() || (out_.element == 0 && !poll_copy_out())) return false;
  if (out_.element == 0) {
    if (several_nodes() && is_carrier()) recorder_.end(Stage::between_nodes, out_.chunk);
    recorder_.begin(Stage::copy_out, out_.chunk);
  }
  const topology::Range chunk = chunks_.range(out_.chunk);
  const topology::Range stretch = next_stretch(out_.element, chunk.size(), 2 * width_);
  for_each_part_range(*batch_, {chunk.begin + stretch.begin, chunk.begin + stretch.end},
                      [&](const PartRange& part_range) {
                        copy_out(*batch_, part_range, source(part_range, stretch.begin),
                                 streaming_);
                      });
  out_.element = stretch.end;
  if (out_.element < chunk.size()) return true;
  recorder_.end(Stage::copy_out, out_.chunk);
  out_.next_chunk();
  // If the root's tensor is read in place, the root waits for the end only.
  if (!shared_ || out_.chunk == chunks_.size()) {
    memory_.raise(&shm::RankBlock::copied_out, chunks_.number(out_.chunk));
  }
  return true;
}

const std::byte* Broadcast::source(const PartRange& part_range, std::size_t element) const {
  const std::size_t first = part_range.first * width_;
  if (is_root())
    return static_cast<const std::byte*>(batch_->parts[part_range.part].ins[0]) + first;
  if (!shared_) return staging(out_.chunk) + (element + part_range.before) * width_;
  return memory_.in_arena(
      carrier_, memory_.descriptor(carrier_, sequence_).places[part_range.part].in + first);
}

std::uint64_t Broadcast::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& broadcast : node_broadcasts_) sum += broadcast->bytes_sent();
  return sum;
}

std::string Broadcast::describe() const {
  std::string text =
      fmt::format("broadcast from rank {}: {} chunks, here brought {}, shown {}, out {}",
                  batch_->root, chunks_.size(), brought_.chunk, shown_, out_.chunk);
  for (std::uint64_t chunk = out_.chunk; several_nodes() && is_carrier() && chunk < brought_.chunk;
       ++chunk) {
    text += "; " + node_broadcast(chunk).describe();
  }
  const auto carrier = topology_.local_ranks()[static_cast<std::size_t>(carrier_)];
  if (out_.chunk < chunks_.size() && !is_carrier()) {
    return fmt::format("{}; chunk {} comes from rank {}", text, out_.chunk, carrier);
  }
  const std::uint64_t wanted =
      out_.chunk == chunks_.size() ? chunks_.end() : chunks_.number(out_.chunk);
  return fmt::format("{}; not copied out yet by {}", text,
                     late_ranks(topology_, memory_, &shm::RankBlock::copied_out, wanted));
}

}  // namespace tutti::collective
