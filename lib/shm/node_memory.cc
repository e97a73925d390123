#include "shm/node_memory.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "base/pages.h"

namespace tutti::shm {
namespace {

std::size_t ranks(const NodeMemory::Layout& layout) {
  return static_cast<std::size_t>(layout.local_size);
}

std::size_t head_bytes(const NodeMemory::Layout& layout) {
  return base::whole_pages(ranks(layout) * sizeof(RankBlock) + 2 * sizeof(Flag) +
                           batches_alive * sizeof(Claims));
}

std::size_t in_bytes(const NodeMemory::Layout& layout) {
  return ranks(layout) * layout.slots * base::whole_pages(layout.slot_bytes);
}

std::size_t out_bytes(const NodeMemory::Layout& layout) {
  return layout.slots * base::whole_pages(layout.slot_bytes);
}

std::size_t small_stride(const NodeMemory::Layout& layout) {
  return (layout.eager_bytes + base::cache_line - 1) / base::cache_line * base::cache_line;
}

/// The bytes for the small batches of this many ranks. With one owner, the bytes for their results.
std::size_t small_bytes_of(const NodeMemory::Layout& layout, std::size_t owners) {
  return base::whole_pages(owners * batches_alive * small_stride(layout));
}

std::size_t small_bytes(const NodeMemory::Layout& layout) {
  return small_bytes_of(layout, ranks(layout)) +
         (layout.small_results ? small_bytes_of(layout, 1) : 0);
}

std::size_t all_half_bytes(const NodeMemory::Layout& layout) {
  return ranks(layout) * base::whole_pages(layout.half_bytes);
}

}  // namespace

std::size_t NodeMemory::Layout::bytes() const {
  return head_bytes(*this) + in_bytes(*this) + out_bytes(*this) + small_bytes(*this) +
         all_half_bytes(*this);
}

std::vector<NodeMemory::Layout::Extent> NodeMemory::Layout::extents_of(int local) const {
  std::vector<Extent> extents;
  std::size_t section = 0;
  // If a page has two owners, it goes to the first.
  const auto share = [&](std::size_t size) {
    const auto end_of = [&](std::size_t owners) {
      return base::whole_pages(size * owners / ranks(*this));
    };
    const auto before = static_cast<std::size_t>(local);
    const std::size_t begin = end_of(before);
    extents.push_back({section + begin, end_of(before + 1) - begin});
    section += base::whole_pages(size);
  };
  share(head_bytes(*this));
  share(in_bytes(*this));
  // Each slot is divided separately, because every slot holds a slice of every lane.
  for (std::size_t slot = 0; slot < slots; ++slot) share(base::whole_pages(slot_bytes));
  share(small_bytes_of(*this, ranks(*this)));
  if (small_results) share(small_bytes_of(*this, 1));
  if (half_bytes > 0) share(all_half_bytes(*this));
  return extents;
}

NodeMemory::NodeMemory(std::span<std::byte> segment, const Layout& layout, int local_index,
                       std::span<base::Doorbell* const> doorbells,
                       std::vector<std::span<std::byte>> arenas)
    : layout_(layout),
      local_index_(local_index),
      doorbells_(doorbells.begin(), doorbells.end()),
      arenas_(std::move(arenas)),
      blocks_(reinterpret_cast<RankBlock*>(segment.data())),
      node_closed_(reinterpret_cast<Flag*>(segment.data() + ranks(layout) * sizeof(RankBlock))),
      claims_(reinterpret_cast<Claims*>(node_closed_ + 2)),
      in_(segment.data() + head_bytes(layout)),
      out_(in_ + in_bytes(layout)),
      small_(out_ + out_bytes(layout)),
      halves_(small_ + small_bytes(layout)) {
  base::check(segment.size() >= layout.bytes(), "the node segment holds its layout");
  base::check(arenas_.size() == ranks(layout) && doorbells_.size() == ranks(layout),
              "every rank of the node has an arena and a doorbell");
}

bool NodeMemory::are_all_in_arenas(std::uint64_t batch) const {
  for (int local = 0; local < layout_.local_size; ++local) {
    if (descriptor(local, batch).parts == 0) return false;
  }
  return true;
}

std::byte* NodeMemory::staging_in(int local, std::uint64_t chunk) const {
  const std::size_t slot = static_cast<std::size_t>(local) * layout_.slots + chunk % layout_.slots;
  return in_ + slot * base::whole_pages(layout_.slot_bytes);
}

std::byte* NodeMemory::staging_out(std::uint64_t chunk) const {
  return out_ + chunk % layout_.slots * base::whole_pages(layout_.slot_bytes);
}

std::span<std::byte> NodeMemory::all_staging_in() const {
  return {staging_in(local_index_, 0), layout_.slots * base::whole_pages(layout_.slot_bytes)};
}

std::span<std::byte> NodeMemory::all_staging_out() const {
  return {out_, out_bytes(layout_)};
}

std::byte* NodeMemory::small(int local, std::uint64_t batch) const {
  const std::size_t slot = static_cast<std::size_t>(local) * batches_alive + batch % batches_alive;
  return small_ + slot * small_stride(layout_);
}

std::byte* NodeMemory::half(int local) const {
  return halves_ + static_cast<std::size_t>(local) * base::whole_pages(layout_.half_bytes);
}

std::optional<std::uint64_t> NodeMemory::arena_offset(const void* data, std::size_t bytes) const {
  const std::span<std::byte> arena = arenas_[static_cast<std::size_t>(local_index_)];
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::less_equal<> not_after;
  if (!not_after(arena.data(), begin) || !not_after(begin + bytes, arena.data() + arena.size())) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(begin - arena.data());
}

std::uint64_t NodeMemory::least(Flag RankBlock::*flag) const {
  std::uint64_t value = (blocks_[0].*flag).load();
  for (int local = 1; local < layout_.local_size; ++local) {
    value = std::min(value, (blocks_[local].*flag).load());
  }
  return value;
}

void NodeMemory::raise(Flag RankBlock::*flag, std::uint64_t to) const {
  Flag& mine = blocks_[local_index_].*flag;
  const std::uint64_t before = mine.load();
  mine.store(to);
  if (least(flag) > before) ring_peers();
}

void NodeMemory::ring_peers() const {
  for (int local = 0; local < layout_.local_size; ++local) {
    if (local != local_index_) ring(local);
  }
}

}  // namespace tutti::shm
