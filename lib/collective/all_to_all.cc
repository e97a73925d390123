#include "collective/all_to_all.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failure.h"

namespace tutti::collective {

using observe::Stage;

namespace {

/// The number of elements of all pieces.
template <typename Piece>
std::size_t count_of(const std::vector<Piece>& pieces) {
  std::size_t count = 0;
  for (const Piece& piece : pieces) count += piece.range.size();
  return count;
}

/// The part of the pieces that lies in `stretch` if they are put one behind the other.
template <typename Piece>
void cut(const std::vector<Piece>& pieces, topology::Range stretch, std::size_t width,
         std::vector<Piece>& some) {
  some.clear();
  std::size_t at = 0;
  for (const auto& [range, staged] : pieces) {
    const std::size_t begin = std::max(stretch.begin, at) - at;
    const std::size_t end = std::min(stretch.end - std::min(at, stretch.end), range.size());
    if (begin < end) {
      some.push_back({{range.begin + begin, range.begin + end}, staged + begin * width});
    }
    at += range.size();
  }
}

}  // namespace

AllToAll::AllToAll(const topology::Topology& topology, const shm::NodeMemory& memory,
                   mpi::Communicator* communicator, const Tuning& tuning, int stream)
    : topology_(topology),
      memory_(memory),
      cache_bytes_(tuning.cache_bytes),
      tag_(stream),
      transfers_(memory.layout().slots),
      host_(tuning.staging),
      in_(memory.layout().slots),
      out_(memory.layout().slots) {
  if (communicator != nullptr) requests_.emplace(*communicator);
}

void AllToAll::start(const Batch& batch, std::uint64_t before) {
  batch_ = &batch;
  recorder_.set_batch(batch.epoch, batch.number);
  width_ = size_of(batch.dtype);
  const auto ranks = static_cast<std::size_t>(topology_.size);
  const std::size_t room = memory_.layout().slot_bytes / width_ / (requests_ ? 2 : 1);
  base::check(room > ranks, "a slot has room for elements of all ranks");
  chunks_ = Chunks(batch.count(), room - ranks, before);
  streaming_ = batch.exceeds(cache_bytes_ / static_cast<std::size_t>(memory_.local_size()));
  ends_ = batch.ends == nullptr ? &host_ : batch.ends;
  ends_->start(batch);
  in_.start();
  out_.start();
  done_ = 0;
  find_firsts();
}

void AllToAll::find_firsts() {
  sent_from_.clear();
  received_at_.clear();
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int rank = 0; rank < topology_.size; ++rank) {
    sent_from_.push_back(sent);
    received_at_.push_back(received);
    sent += batch_->shares.count(topology_.rank, rank);
    received += batch_->shares.count(rank, topology_.rank);
  }
}

Progress AllToAll::step() {
  if (requests_) requests_->progress();
  const bool moved = finish_some() || copy_out_some() || bring_some();
  if (done_ == chunks_.size()) return Progress::done;
  return moved ? Progress::moved : Progress::waiting;
}

/// Returns the elements that one step copies. The host takes time to copy, so a step copies few
/// elements. Ends of another kind only begin a copy, so a step begins all copies of the chunk.
topology::Range AllToAll::next_copies(std::size_t done, std::size_t end) const {
  return is_host() ? next_stretch(done, end, 2 * width_) : topology::Range{done, end};
}

bool AllToAll::bring_some() {
  const bool moved = pass_on_brought();
  const std::uint64_t chunk = in_.begun.chunk;
  if (chunk == chunks_.size()) return moved;
  if (in_.begun.element == 0 && !begin_chunk(chunk)) return moved;
  const std::size_t end = count_of(pieces_in_);
  const topology::Range stretch = next_copies(in_.begun.element, end);
  cut(pieces_in_, stretch, width_, some_in_);
  if (!some_in_.empty()) ends_->copy_in(*batch_, some_in_);
  in_.begun.element = stretch.end;
  if (stretch.end < end) return true;
  in_.next_chunk(ends_->mark(Ends::Side::in));
  pass_on_brought();
  return true;
}

/// Returns false if the slot is not free yet. Batches before this one may have left it with either
/// flag.
bool AllToAll::begin_chunk(std::uint64_t chunk) {
  const std::uint64_t number = chunks_.number(chunk);
  if (!is_slot_free(memory_, &shm::RankBlock::copied_out, number) ||
      !is_slot_free(memory_, &shm::RankBlock::reduced, number)) {
    return false;
  }
  recorder_.begin(Stage::copy_in, chunk);
  if (requests_) receive(chunk);
  list_pieces_in(chunk);
  return true;
}

void AllToAll::list_pieces_in(std::uint64_t chunk) {
  pieces_in_.clear();
  std::byte* to = staging(memory_.local_index(), chunk);
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (!is_staged(topology_.rank, rank)) continue;
    const topology::Range share = batch_->shares.share(topology_.rank, rank, chunks_.range(chunk));
    if (share.size() == 0) continue;
    const std::size_t first = sent_from_[static_cast<std::size_t>(rank)];
    pieces_in_.push_back({{first + share.begin, first + share.end}, to});
    to += share.size() * width_;
  }
}

/// Receives the elements of other nodes into the second half of this rank's staging buffer, by
/// sender.
void AllToAll::receive(std::uint64_t chunk) {
  std::byte* to = staging(memory_.local_index(), chunk) + memory_.layout().slot_bytes / 2;
  for (int rank = 0; rank < topology_.size; ++rank) {
    const topology::Range share = batch_->shares.share(rank, topology_.rank, chunks_.range(chunk));
    if (is_here(rank) || share.size() == 0) continue;
    const std::size_t bytes = share.size() * width_;
    transfers(chunk).receives.push_back(requests_->receive(rank, tag_, {to, bytes}));
    to += bytes;
  }
}

/// Tells the other ranks of a chunk that now lies in staging memory, and sends its shares to other
/// nodes.
bool AllToAll::pass_on_brought() {
  if (!in_.poll_over(is_over(Ends::Side::in))) return false;
  const std::uint64_t chunk = in_.over() - 1;
  recorder_.end(Stage::copy_in, chunk);
  memory_.raise(&shm::RankBlock::copied_in, chunks_.number(in_.over()));
  if (requests_) send(chunk);
  return true;
}

/// Each rank begins with the rank after it, so that all send to different ranks.
void AllToAll::send(std::uint64_t chunk) {
  recorder_.begin(Stage::between_nodes, chunk);
  const std::byte* const staged = staging(memory_.local_index(), chunk);
  for (int i = 1; i < topology_.size; ++i) {
    const int rank = (topology_.rank + i) % topology_.size;
    const topology::Range share = batch_->shares.share(topology_.rank, rank, chunks_.range(chunk));
    if (is_here(rank) || share.size() == 0) continue;
    const std::size_t bytes = share.size() * width_;
    const std::byte* const from = staged + staged_before(topology_.rank, rank, chunk) * width_;
    transfers(chunk).sends.push_back(requests_->send(rank, tag_, {from, bytes}));
    bytes_sent_ += bytes;
  }
}

std::size_t AllToAll::staged_before(int from, int to, std::uint64_t chunk) const {
  std::size_t before = 0;
  for (int rank = 0; rank < to; ++rank) {
    if (!is_staged(from, rank)) continue;
    before += batch_->shares.share(from, rank, chunks_.range(chunk)).size();
  }
  return before;
}

bool AllToAll::are_over(std::vector<mpi::Requests::Id>& transfers) {
  std::erase_if(transfers, [this](mpi::Requests::Id id) { return requests_->take_finished(id); });
  return transfers.empty();
}

bool AllToAll::may_copy_out() {
  const std::uint64_t chunk = out_.begun.chunk;
  return chunk < in_.over() && are_over(transfers(chunk).receives) &&
         memory_.least(&shm::RankBlock::copied_in) > chunks_.number(chunk);
}

bool AllToAll::copy_out_some() {
  const std::uint64_t chunk = out_.begun.chunk;
  if (chunk == chunks_.size()) return false;
  if (out_.begun.element == 0) {
    if (!may_copy_out()) return false;
    recorder_.begin(Stage::copy_out, chunk);
    list_pieces_out(chunk);
  }
  const std::size_t end = count_of(pieces_out_);
  const topology::Range stretch = next_copies(out_.begun.element, end);
  cut(pieces_out_, stretch, width_, some_out_);
  if (!some_out_.empty()) ends_->copy_out(*batch_, some_out_, streaming_);
  out_.begun.element = stretch.end;
  if (stretch.end < end) return true;
  out_.next_chunk(ends_->mark(Ends::Side::out));
  finish_some();
  return true;
}

void AllToAll::list_pieces_out(std::uint64_t chunk) {
  pieces_out_.clear();
  const std::byte* arrived =
      staging(memory_.local_index(), chunk) + memory_.layout().slot_bytes / 2;
  for (int rank = 0; rank < topology_.size; ++rank) {
    const topology::Range share = batch_->shares.share(rank, topology_.rank, chunks_.range(chunk));
    if (share.size() == 0) continue;
    const std::byte* from = nullptr;
    if (!is_here(rank)) {
      from = arrived;
      arrived += share.size() * width_;
    } else if (is_staged(rank, topology_.rank)) {
      const int local = topology_.local_index_of[static_cast<std::size_t>(rank)];
      from = staging(local, chunk) + staged_before(rank, topology_.rank, chunk) * width_;
    } else {
      const std::size_t first = sent_from_[static_cast<std::size_t>(rank)] + share.begin;
      from = static_cast<const std::byte*>(batch_->parts[0].ins[0]) + first * width_;
    }
    const std::size_t first = received_at_[static_cast<std::size_t>(rank)];
    pieces_out_.push_back({{first + share.begin, first + share.end}, from});
  }
}

/// A chunk is done when its copies are over and MPI has sent what this rank had to send.
bool AllToAll::finish_some() {
  const bool copied = out_.poll_over(is_over(Ends::Side::out));
  if (copied) recorder_.end(Stage::copy_out, out_.over() - 1);
  if (done_ == out_.over() || !are_over(transfers(done_).sends)) return copied;
  if (requests_) recorder_.end(Stage::between_nodes, done_);
  const std::uint64_t passed = chunks_.number(++done_);
  memory_.raise(&shm::RankBlock::reduced, passed);
  memory_.raise(&shm::RankBlock::copied_out, passed);
  return true;
}

std::string AllToAll::describe() const {
  std::string text = fmt::format("all_to_all: {} chunks, here copied in {}, copied out {}, done {}",
                                 chunks_.size(), in_.over(), out_.over(), done_);
  if (is_copying()) text += "; a copy is under way";
  if (requests_) text += "; " + requests_->describe();
  const std::uint64_t in = in_.begun.chunk;
  if (in < chunks_.size() && in == out_.begun.chunk) {
    const std::uint64_t wanted = chunks_.number(in) + 1;
    const std::uint64_t slots = memory_.layout().slots;
    if (wanted <= slots) return text;
    return fmt::format("{}; staging for chunk {} still in use by {}", text, in,
                       late_ranks(topology_, memory_, &shm::RankBlock::copied_out, wanted - slots));
  }
  const std::uint64_t out = out_.begun.chunk;
  if (out == chunks_.size()) return text;
  return text + late_chunk(topology_, memory_, &shm::RankBlock::copied_in,
                           {out, chunks_.number(out)}, "not copied in");
}

}  // namespace tutti::collective
