#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reduce/reduce.h"
#include "topology/topology.h"
#include "tutti/kvstore.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti::collective {

enum class Progress : std::uint8_t { done, moved, waiting };

/// A tensor, or a part of one, in a batch. Views into memory that the runtime keeps.
struct Piece {
  std::span<const void* const> ins;  ///< one a device; none: a rank without data (joined, no root)
  std::span<void* const> outs;       ///< one a device, or none; each equal to an `in`, or apart
  std::size_t count = 0;             ///< elements
};

/// What moves together: the pieces one after the other, as one vector of elements. Equal on all
/// ranks but for the addresses, their number and `whole_bytes`.
struct Batch {
  enum class Kind : std::uint8_t { allreduce, broadcast };
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  ///< world rank
  WireFormat wire = WireFormat::none;
  double divisor = 1;
  std::vector<Piece> pieces;
  /// Bytes of the tensors that the pieces are parts of, where that is more than the pieces
  /// themselves: results larger than the caches are written around them. Changes no bit.
  std::size_t whole_bytes = 0;

  std::size_t count() const;
  std::size_t bytes() const { return count() * size_of(dtype); }
  /// Whether inputs and outputs, of the whole tensors, are more than fits in so much cache.
  bool exceeds(std::size_t cache_bytes) const {
    return std::max(bytes(), whole_bytes) > cache_bytes / 2;
  }
};

/// The part of a piece that lies in some range of its batch's vector.
struct Segment {
  std::size_t piece = 0;   ///< its index
  std::size_t first = 0;   ///< element of the piece
  std::size_t count = 0;   ///< elements, never none
  std::size_t before = 0;  ///< elements of the range before this one
};

/// Calls `visit(segment)` for each piece that the range touches, in order.
template <typename Visit>
void for_each_segment(const Batch& batch, topology::Range range, const Visit& visit) {
  std::size_t start = 0;
  for (std::size_t i = 0; i < batch.pieces.size() && start < range.end; ++i) {
    const std::size_t count = batch.pieces[i].count;
    const std::size_t from = std::max(range.begin, start);
    const std::size_t to = std::min(range.end, start + count);
    if (from < to) visit(Segment{i, from - start, to - from, from - range.begin});
    start += count;
  }
}

/// Copies a range of the batch's vector from this rank's inputs to contiguous memory: reduced over
/// the devices of this process on the way (a broadcast takes the first one's), or the identity
/// where there is no input.
void copy_in(const Batch& batch, topology::Range range, std::byte* to);

/// Where a range lies in this rank's inputs if it need not be copied: in one piece, of one device.
const std::byte* in_place(const Batch& batch, topology::Range range);

/// Copies to all outputs of this rank; an output that is where the data comes from stays as it is.
/// `streaming`: around the caches.
void copy_out(const Batch& batch, const Segment& segment, const void* from, bool streaming);
void copy_out(const Batch& batch, topology::Range range, const std::byte* from, bool streaming);

/// memcpy, around the caches if `streaming`.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming);

}  // namespace tutti::collective
