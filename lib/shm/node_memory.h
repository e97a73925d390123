#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/doorbell.h"

namespace tutti::shm {

/// A word that one rank writes and the others of its node read; on a cache line of its own.
struct alignas(64) Flag {
  std::atomic<std::uint64_t> value{0};

  std::uint64_t load() const { return value.load(std::memory_order_acquire); }
  void store(std::uint64_t to) { value.store(to, std::memory_order_release); }
};

/// Where a rank's tensor of a batch lies, told before the batch's gate and read behind it.
struct alignas(64) Descriptor {
  std::uint64_t in_arena = 0;  ///< 1: `in` and `out` are offsets in the rank's arena
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

/// Batches whose descriptors and small messages live at once: one whose data moves, one whose gate
/// is open, and one that a slower rank may still be reading.
inline constexpr std::uint64_t batches_alive = 4;

/// What a rank shows to its node.
struct RankBlock {
  Flag gate;       ///< epoch and batch of the last gate entered
  Flag copied_in;  ///< chunks, over the session's life, ...
  Flag reduced;
  Flag copied_out;
  Descriptor descriptors[batches_alive];
};

/// The node's data segment: one block a rank, the closed gate of the leaders, and staging memory.
/// Views into a mapping that the caller owns; all zeros is the fresh state.
class NodeMemory {
 public:
  struct Layout {
    int local_size = 1;
    std::size_t slots = 2;        ///< chunks under way at once
    std::size_t slot_bytes = 0;   ///< one chunk of one rank
    std::size_t small_bytes = 0;  ///< largest message that is exchanged whole
    /// Bytes of the whole segment.
    std::size_t bytes() const;
  };

  NodeMemory(std::span<std::byte> segment, const Layout& layout, int local_index,
             std::span<base::Doorbell* const> doorbells, std::vector<std::span<std::byte>> arenas);

  const Layout& layout() const { return layout_; }
  int local_index() const { return local_index_; }
  int local_size() const { return layout_.local_size; }
  RankBlock& block(int local) const { return blocks_[local]; }
  RankBlock& mine() const { return blocks_[local_index_]; }
  /// Written by the leader: the last gate that every node has arrived at.
  Flag& node_closed() const { return *node_closed_; }

  /// Where a rank puts its own chunk, and where the reduced chunk comes to lie.
  std::byte* staging_in(int local, std::uint64_t chunk) const;
  std::byte* staging_out(std::uint64_t chunk) const;
  /// Where a rank puts its part of the `sequence`-th batch if that is small.
  std::byte* small(int local, std::uint64_t sequence) const;

  /// The offset of [data, data + bytes) in this rank's arena, if it lies in it.
  std::optional<std::uint64_t> arena_offset(const void* data, std::size_t bytes) const;
  std::byte* in_arena(int local, std::uint64_t offset) const {
    return arenas_[static_cast<std::size_t>(local)].data() + offset;
  }

  /// Wakes the other ranks of the node where they sleep.
  void ring_peers() const;
  /// The smallest of a flag over the node's ranks.
  std::uint64_t least(Flag RankBlock::*flag) const;

 private:
  Layout layout_;
  int local_index_;
  std::vector<base::Doorbell*> doorbells_;
  std::vector<std::span<std::byte>> arenas_;
  RankBlock* blocks_;
  Flag* node_closed_;
  std::byte* in_;
  std::byte* out_;
  std::byte* small_;
};

}  // namespace tutti::shm
