#include "control/segment.h"

#include <utility>

#include "base/cache_line.h"
#include "base/failure.h"

namespace tutti::control {
namespace {

struct alignas(base::cache_line) Header {
  std::atomic<std::uint32_t> collector_sleeps{0};
  alignas(base::cache_line) LossSlot loss;
};

// The layout is: the header, the slot of every rank, two rings for each rank, and a word for each
// rank of the world.
std::size_t slots_at() {
  return sizeof(Header);
}

std::size_t rings_at(int local_size) {
  return slots_at() + static_cast<std::size_t>(local_size) * sizeof(RankSlot);
}

std::size_t closing_at(int local_size) {
  return rings_at(local_size) + 2 * static_cast<std::size_t>(local_size) * Segment::ring_bytes;
}

Header& header(const base::Mapping& memory) {
  return *reinterpret_cast<Header*>(memory.data());
}

}  // namespace

std::size_t Segment::bytes(int local_size, int size) {
  return closing_at(local_size) +
         static_cast<std::size_t>(size) * sizeof(std::atomic<std::uint32_t>);
}

Segment::Segment(std::shared_ptr<base::Mapping> memory, int local_size, int size)
    : memory_(std::move(memory)), local_size_(local_size) {
  base::check(memory_->size() >= bytes(local_size, size), "the control segment holds every rank");
}

RankSlot& Segment::slot(int local_index) const {
  std::byte* const slots = memory_->data() + slots_at();
  return reinterpret_cast<RankSlot*>(slots)[local_index];
}

net::ByteRing Segment::ring(net::RingCursors& cursors, int index) const {
  std::byte* const rings = memory_->data() + rings_at(local_size_);
  return {cursors, {rings + static_cast<std::size_t>(index) * ring_bytes, ring_bytes}};
}

net::ByteRing Segment::up(int local_index) const {
  return ring(slot(local_index).up, 2 * local_index);
}

net::ByteRing Segment::down(int local_index) const {
  return ring(slot(local_index).down, 2 * local_index + 1);
}

LossSlot& Segment::loss() const {
  return header(*memory_).loss;
}

std::atomic<std::uint32_t>& Segment::closing(int rank) const {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(memory_->data() +
                                                       closing_at(local_size_))[rank];
}

std::atomic<std::uint32_t>& Segment::collector_sleeps() const {
  return header(*memory_).collector_sleeps;
}

}  // namespace tutti::control
