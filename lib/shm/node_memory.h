#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cache_line.h"
#include "base/doorbell.h"

namespace tutti::shm {

/// A word that one rank writes and the others of its node read; on a cache line of its own.
///
/// Sequentially consistent, for `NodeMemory::raise`: of two ranks that raise theirs at once, at
/// least one must see the other's.
struct alignas(base::cache_line) Flag {
  std::atomic<std::uint64_t> value{0};

  std::uint64_t load() const { return value.load(std::memory_order_seq_cst); }
  void store(std::uint64_t to) { value.store(to, std::memory_order_seq_cst); }
};

/// Where the parts of a rank's batch lie in its arena, told before the batch's gate and read
/// behind it.
struct alignas(base::cache_line) Descriptor {
  struct Place {
    std::uint64_t in = 0;
    std::uint64_t out = 0;
  };
  static constexpr std::size_t most_parts = 63;

  std::uint64_t parts = 0;  ///< 0: not all of them are in the arena, or they are too many
  std::array<Place, most_parts> places{};
};

/// How many batches a rank may have entered that are not done there.
inline constexpr std::uint64_t most_open = 3;
/// What is written at entry, and read until the batch is done, must outlast all that peers may
/// enter meanwhile. A rank on which k is the first that is not done has entered k + most_open - 1
/// at the most, and a peer stands one gate further at the most: k to k + most_open are alive.
inline constexpr std::uint64_t batches_alive = most_open + 1;

/// What a rank shows to its node.
struct RankBlock {
  Flag gate;  ///< the last gate entered
  /// Chunks that have passed each stage of the pipeline, over the session's life. Every rank of a
  /// node moves the same batches in the same chunks, so that these numbers agree.
  Flag copied_in;   ///< my chunk may be read
  Flag reduced;     ///< my part of the result may be read; I read the inputs no more
  Flag copied_out;  ///< I read the result no more
  std::array<Descriptor, batches_alive> descriptors;
};

/// Which stripes of a small batch's result somebody computes, by one word a stripe: twice one more
/// than the batch while it is being computed, one more than that when it is there.
struct alignas(base::cache_line) Claims {
  static constexpr std::size_t most_stripes = 16;
  std::array<std::atomic<std::uint64_t>, most_stripes> stripes{};

  /// True for one rank only, which then computes the stripe.
  bool claim(std::size_t stripe, std::uint64_t batch) {
    std::uint64_t seen = stripes[stripe].load(std::memory_order_relaxed);
    const std::uint64_t claimed = 2 * (batch + 1);
    return seen < claimed && stripes[stripe].compare_exchange_strong(seen, claimed);
  }
  void fulfil(std::size_t stripe, std::uint64_t batch) {
    stripes[stripe].store(2 * (batch + 1) + 1, std::memory_order_release);
  }
  bool is_fulfilled(std::size_t stripe, std::uint64_t batch) const {
    return stripes[stripe].load(std::memory_order_acquire) == 2 * (batch + 1) + 1;
  }
};

/// The node's data segment: one block a rank, what its leader has heard from other nodes, and
/// staging memory. Views into a mapping that the caller owns; all zeros is the fresh state.
class NodeMemory {
 public:
  /// Equal on all ranks of a node.
  struct Layout {
    int local_size = 1;
    std::size_t slots = 2;        ///< chunks under way at once
    std::size_t slot_bytes = 0;   ///< one chunk of one rank
    std::size_t small_bytes = 0;  ///< largest message that is exchanged whole
    bool small_results = false;   ///< their results have room there, too
    /// Bytes of the whole segment.
    std::size_t bytes() const;

    /// Whole pages of the segment.
    struct Extent {
      std::size_t begin = 0;
      std::size_t bytes = 0;
    };
    /// What a rank uses most, as far as pages can tell: if each makes its own exist, they lie in
    /// the memory next to its processor. All ranks' extents together are the segment.
    std::vector<Extent> extents_of(int local) const;
  };

  /// `doorbells` and `arenas` by local index, an arena empty where there is none. Throws `internal`
  /// when the segment is smaller than its layout.
  NodeMemory(std::span<std::byte> segment, const Layout& layout, int local_index,
             std::span<base::Doorbell* const> doorbells, std::vector<std::span<std::byte>> arenas);

  const Layout& layout() const { return layout_; }
  int local_index() const { return local_index_; }
  int local_size() const { return layout_.local_size; }
  RankBlock& block(int local) const { return blocks_[local]; }
  RankBlock& mine() const { return blocks_[local_index_]; }
  /// Written by the leader: the last gate that every node has arrived at.
  Flag& closed_flag() const { return *node_closed_; }
  /// Written by the leader: how many batches there have been when the last of those was done whose
  /// data came with its gate between nodes. Its result lies where the leader had its part.
  Flag& delivered_flag() const { return node_closed_[1]; }
  Descriptor& descriptor(int local, std::uint64_t batch) const {
    return blocks_[local].descriptors[batch % batches_alive];
  }

  /// Where a rank puts its own chunk, and where the reduced chunk comes to lie.
  std::byte* staging_in(int local, std::uint64_t chunk) const;
  std::byte* staging_out(std::uint64_t chunk) const;
  /// Where a rank puts its part of the `batch`-th batch if that is small.
  std::byte* small(int local, std::uint64_t batch) const;
  /// Where its result may lie, of which each stripe is its claimant's to write. With
  /// `Layout::small_results` only.
  std::byte* small_result(std::uint64_t batch) const { return small(layout_.local_size, batch); }
  Claims& claims(std::uint64_t batch) const { return claims_[batch % batches_alive]; }

  /// The offset of [data, data + bytes) in this rank's arena, if it lies in it.
  std::optional<std::uint64_t> arena_offset(const void* data, std::size_t bytes) const;
  std::byte* in_arena(int local, std::uint64_t offset) const {
    return arenas_[static_cast<std::size_t>(local)].data() + offset;
  }

  /// The smallest of a flag over the node's ranks.
  std::uint64_t least(Flag RankBlock::*flag) const;
  /// Raises this rank's flag. Wakes the node only if that raised the smallest: whoever waits for
  /// one that is behind will be woken by it, and a processor is not taken away for nothing.
  void raise(Flag RankBlock::*flag, std::uint64_t to) const;
  void ring(int local) const { doorbells_[static_cast<std::size_t>(local)]->ring(); }
  /// Wakes the other ranks of the node where they sleep.
  void ring_peers() const;

 private:
  Layout layout_;
  int local_index_;
  std::vector<base::Doorbell*> doorbells_;
  std::vector<std::span<std::byte>> arenas_;
  RankBlock* blocks_;
  Flag* node_closed_;
  Claims* claims_;
  std::byte* in_;
  std::byte* out_;
  std::byte* small_;
};

}  // namespace tutti::shm
