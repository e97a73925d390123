#include "p2p/pair_memory.h"

#include <utility>

#include "base/failure.h"
#include "base/pages.h"

namespace tutti::p2p {
namespace {

constexpr std::size_t ring_bytes = PairMemory::frame_ring_bytes + PairMemory::data_ring_bytes;

std::size_t pairs(int local_size) {
  const auto ranks = static_cast<std::size_t>(local_size);
  return ranks * ranks;
}

}  // namespace

// The layout is: a mail word for each rank, then two cursors for each pair, and then, on whole
// pages, two rings for each pair.
std::size_t PairMemory::head_bytes(int local_size) {
  return base::whole_pages(static_cast<std::size_t>(local_size) * sizeof(Mail) +
                           pairs(local_size) * sizeof(Cursors));
}

std::size_t PairMemory::bytes(int local_size) {
  return head_bytes(local_size) + pairs(local_size) * base::whole_pages(ring_bytes);
}

PairMemory::PairMemory(base::Fd file, const base::Mapper& map, int local_index,
                       std::vector<base::Doorbell*> doorbells)
    : file_(std::move(file)),
      local_index_(local_index),
      doorbells_(std::move(doorbells)),
      has_frames_(doorbells_.size()),
      has_data_(doorbells_.size()) {
  mapping_ = map(file_, bytes(local_size()));
}

std::size_t PairMemory::pair(int from, int to) const {
  return static_cast<std::size_t>(from) * doorbells_.size() + static_cast<std::size_t>(to);
}

std::size_t PairMemory::rings_at(int from, int to) const {
  return head_bytes(local_size()) + pair(from, to) * base::whole_pages(ring_bytes);
}

PairMemory::Mail& PairMemory::mail_of(int local) const {
  return reinterpret_cast<Mail*>(mapping_->data())[local];
}

PairMemory::Cursors& PairMemory::cursors(int from, int to) const {
  std::byte* const all = mapping_->data() + static_cast<std::size_t>(local_size()) * sizeof(Mail);
  return reinterpret_cast<Cursors*>(all)[pair(from, to)];
}

void PairMemory::reserve(std::vector<bool>& has, int to, std::size_t begin, std::size_t count) {
  const auto at = static_cast<std::size_t>(to);
  if (has[at]) return;
  base::reserve(file_, begin, count);
  has[at] = true;
  reserved_bytes_ += count;
}

void PairMemory::reserve_frames(int to) {
  reserve(has_frames_, to, rings_at(local_index_, to), frame_ring_bytes);
}

void PairMemory::reserve_data(int to) {
  reserve(has_data_, to, rings_at(local_index_, to) + frame_ring_bytes, data_ring_bytes);
}

net::ByteRing PairMemory::frames(int from, int to) const {
  return {cursors(from, to).frames, {mapping_->data() + rings_at(from, to), frame_ring_bytes}};
}

net::ByteRing PairMemory::data(int from, int to) const {
  return {cursors(from, to).data,
          {mapping_->data() + rings_at(from, to) + frame_ring_bytes, data_ring_bytes}};
}

std::uint64_t PairMemory::mail() const {
  return mail_of(local_index_).count.load(std::memory_order_seq_cst);
}

void PairMemory::note_mail(int to) const {
  mail_of(to).count.fetch_add(1, std::memory_order_seq_cst);
  ring(to);
}

}  // namespace tutti::p2p
