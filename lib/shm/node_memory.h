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

/// A word that one rank writes and the other ranks of its node read, on its own cache line.
///
/// It is sequentially consistent because of `NodeMemory::raise`: if two ranks raise their flags at
/// the same time, at least one of them must see the other's.
struct alignas(base::cache_line) Flag {
  std::atomic<std::uint64_t> value{0};

  std::uint64_t load() const { return value.load(std::memory_order_seq_cst); }
  void store(std::uint64_t to) { value.store(to, std::memory_order_seq_cst); }
};

/// The gate that a rank has entered last. Beside it is what the other rank of two needs next: for
/// which gate's batch this rank has filled its slot for halves. Both are gates as one word.
struct alignas(base::cache_line) GateFlag {
  std::atomic<std::uint64_t> entered{0};
  std::atomic<std::uint64_t> filled_for{0};

  std::uint64_t load() const { return entered.load(std::memory_order_seq_cst); }
  void store(std::uint64_t to) { entered.store(to, std::memory_order_seq_cst); }
  std::uint64_t filled() const { return filled_for.load(std::memory_order_acquire); }
  /// Comes before the gate is entered, which makes the word visible.
  void note_filled(std::uint64_t gate) { filled_for.store(gate, std::memory_order_release); }
};

/// The places of the parts of a rank's batch in its arena. The rank writes them before the batch's
/// gate, and others read them after the gate has closed.
struct alignas(base::cache_line) Descriptor {
  struct Offsets {
    std::uint64_t in = 0;
    std::uint64_t out = 0;
  };
  static constexpr std::size_t most_parts = 63;

  std::uint64_t parts = 0;  ///< 0: some lie outside the arena, or they are too many
  std::array<Offsets, most_parts> places{};
};

/// The number of batches that a rank may have entered and that are not done there.
inline constexpr std::uint64_t most_open = 3;
/// The number of batches that need a copy of the data that is written on entry and read until the
/// batch is done. If k is the first batch not done on a rank, the rank has entered at most k +
/// most_open - 1, and another rank is at most one gate further. So k to k + most_open are in use.
inline constexpr std::uint64_t batches_alive = most_open + 1;

/// The data that a rank publishes to its node.
struct RankBlock {
  GateFlag gate;
  /// The number of chunks of the session that have passed each stage of the pipeline. All ranks of
  /// a node move the same batches in the same chunks, so the numbers can be compared.
  Flag copied_in;   ///< my input to the chunk may be read
  Flag reduced;     ///< my slice of the result may be read; I read no inputs any more
  Flag copied_out;  ///< I do not read the result any more
  /// The number of chunks of the session, among those that move by launches of NCCL, that may be
  /// launched, because my input to them is complete.
  Flag prepared;
  /// The numbers of chunks of the session, among those that move by halves:
  Flag half_filled;  ///< my slot holds the other rank's half, where that was not put there ahead
  Flag half_summed;  ///< the other rank's slot holds the sum of my half
  std::array<Descriptor, batches_alive> descriptors;
};

/// Says which stripes of a small batch's result are computed: one word for each stripe. It is 2(b +
/// 1) while some rank computes the stripe of batch b, and 2(b + 1) + 1 when the stripe is there.
struct alignas(base::cache_line) Claims {
  static constexpr std::size_t most_stripes = 16;
  std::array<std::atomic<std::uint64_t>, most_stripes> stripes{};

  /// Returns true on one rank only, which must then compute the stripe.
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

/// The node's data segment: a block for each rank, the leader's flags, and the staging buffers. The
/// object has views into a mapping that the caller owns. A new segment of zeros is valid.
class NodeMemory {
 public:
  /// Equal on all ranks of a node.
  struct Layout {
    int local_size = 1;
    std::size_t slots = 2;        ///< chunks under way at once
    std::size_t slot_bytes = 0;   ///< one chunk of one rank
    std::size_t eager_bytes = 0;  ///< the eager limit: the largest batch that moves with its gate
    bool small_results = false;   ///< there is room for their results, too
    /// Each rank's slot for a half of a chunk, in batches that move by halves. 0 if no batch does.
    std::size_t half_bytes = 0;
    /// The bytes of the whole segment.
    std::size_t bytes() const;

    /// Whole pages of the segment.
    struct Extent {
      std::size_t begin = 0;
      std::size_t bytes = 0;
    };
    /// The pages that a rank uses most. If each rank touches its own first, they lie in the memory
    /// next to its processor. The extents of all ranks together are the segment.
    std::vector<Extent> extents_of(int local) const;
  };

  /// `doorbells` and `arenas` are ordered by local index. If a rank has no arena, its entry is
  /// empty. Throws `internal` if the segment is smaller than its layout.
  NodeMemory(std::span<std::byte> segment, const Layout& layout, int local_index,
             std::span<base::Doorbell* const> doorbells, std::vector<std::span<std::byte>> arenas);

  const Layout& layout() const { return layout_; }
  int local_index() const { return local_index_; }
  int local_size() const { return layout_.local_size; }
  RankBlock& block(int local) const { return blocks_[local]; }
  RankBlock& mine() const { return blocks_[local_index_]; }
  /// Written by the leader: the last gate at which every node has arrived.
  Flag& closed_flag() const { return *node_closed_; }
  /// Written by the leader: the sequence number + 1 of the last batch whose piggybacked data has
  /// arrived. The result lies where the leader had put its input.
  Flag& delivered_flag() const { return node_closed_[1]; }
  Descriptor& descriptor(int local, std::uint64_t batch) const {
    return blocks_[local].descriptors[batch % batches_alive];
  }

  /// Whether all ranks of the node have told where the batch's tensors lie in their arenas. Call it
  /// after the batch's gate.
  bool are_all_in_arenas(std::uint64_t batch) const;

  /// The staging buffers for a chunk: a rank's input, and the result.
  std::byte* staging_in(int local, std::uint64_t chunk) const;
  std::byte* staging_out(std::uint64_t chunk) const;
  /// All staging buffers for this rank's inputs, and all for results.
  std::span<std::byte> all_staging_in() const;
  std::span<std::byte> all_staging_out() const;
  /// The place where a rank puts its input to the `batch`-th batch, if that batch is small.
  std::byte* small(int local, std::uint64_t batch) const;
  /// The place where the ranks put its result. Each stripe is written by the rank that claimed it.
  /// Only with `Layout::small_results`.
  std::byte* small_result(std::uint64_t batch) const { return small(layout_.local_size, batch); }
  /// A rank's slot for a half; see `Layout::half_bytes`.
  std::byte* half(int local) const;
  Claims& claims(std::uint64_t batch) const { return claims_[batch % batches_alive]; }

  /// The offset of [data, data + bytes) in this rank's arena, if it lies in it.
  std::optional<std::uint64_t> arena_offset(const void* data, std::size_t bytes) const;
  std::byte* in_arena(int local, std::uint64_t offset) const {
    return arenas_[static_cast<std::size_t>(local)].data() + offset;
  }

  /// The smallest value of this flag on the node's ranks.
  std::uint64_t least(Flag RankBlock::*flag) const;
  /// Raises this rank's flag. Wakes the node only if this flag was the smallest. A rank that waits
  /// for another flag, which is further behind, is woken by that one. So no processor is taken away
  /// for nothing.
  void raise(Flag RankBlock::*flag, std::uint64_t to) const;
  /// Wakes a rank that waits for data of its node.
  void ring(int local) const { doorbells_[static_cast<std::size_t>(local)]->ring_for_data(); }
  /// Wakes the other ranks of the node that wait for data and sleep.
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
  std::byte* halves_;
};

}  // namespace tutti::shm
