#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reduce/reduce.h"
#include "topology/topology.h"
#include "tutti/collective_kind.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"
#include "tutti/wire_format.h"

namespace tutti::collective {

enum class Progress : std::uint8_t { done, moved, waiting };

/// A tensor, or a part of one, in a batch. Views into memory that the runtime keeps.
struct TensorPart {
  std::span<const void* const> ins;  ///< one a device; none: a rank without data (joined, no root)
  std::span<void* const> outs;       ///< one a device, or none; each equal to an `in`, or apart
  std::size_t count = 0;             ///< elements
  /// The elements of the part that `ins` and `outs` begin with: a rank's shard is all it has of a
  /// reduce_scatter's output or an allgather's input.
  std::size_t in_first = 0;
  std::size_t out_first = 0;
};

/// What moves together of a tensor of which every rank has a shard: the shards lie side by side
/// like the columns of a table, of which some rows move. The last row may lack columns.
struct Rows {
  std::size_t whole = 0;  ///< elements of the tensor
  int ranks = 1;
  topology::Range rows;

  /// The rows for the elements [begin, begin + count) of a plan, which cuts the tensor in parts:
  /// parts that follow one another have rows that do, and all ranks take part in each.
  static Rows of_part(std::size_t whole, int ranks, std::size_t begin, std::size_t count);
  /// A rank's elements of the rows, by their place in the tensor.
  topology::Range column(int rank) const;
  std::size_t count() const;
};

/// What moves together: the parts one after the other, as one vector of elements. Equal on all
/// ranks but for the addresses, their number and `whole_bytes`.
struct Batch {
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  ///< world rank
  WireFormat wire = WireFormat::none;
  double divisor = 1;
  std::vector<TensorPart> parts;
  /// Bytes of the tensors that the parts are parts of, where that is more than the parts
  /// themselves: results larger than the caches are written around them. Changes no bit.
  std::size_t whole_bytes = 0;
  Rows rows;  ///< sharded only: what moves of the one part, which is the whole tensor

  /// One of the halves of an allreduce.
  bool is_sharded() const { return tutti::is_sharded(kind); }
  std::size_t count() const;  ///< of what moves
  std::size_t bytes() const { return count() * size_of(dtype); }
  /// With several nodes: what a node's sum is divided by, and the sum over nodes. 16 bits may not
  /// hold a node's sum though they hold the average; the others are divided once, at the end.
  double divisor_in_node() const { return size_of(dtype) == 2 ? divisor : 1; }
  double divisor_between() const { return size_of(dtype) == 2 ? 1 : divisor; }
  /// Whether inputs and outputs, of the whole tensors, are more than fits in so much cache.
  bool exceeds(std::size_t cache_bytes) const {
    return std::max(bytes(), whole_bytes) > cache_bytes / 2;
  }
};

/// The part of a part that lies in some range of its batch's vector.
struct PartRange {
  std::size_t part = 0;    ///< its index
  std::size_t first = 0;   ///< element of the part
  std::size_t count = 0;   ///< elements, never none
  std::size_t before = 0;  ///< elements of the range before this one
};

/// Calls `visit(part_range)` for each part that the range touches, in order.
template <typename Visit>
void for_each_part_range(const Batch& batch, topology::Range range, const Visit& visit) {
  std::size_t start = 0;
  for (std::size_t i = 0; i < batch.parts.size() && start < range.end; ++i) {
    const std::size_t count = batch.parts[i].count;
    const std::size_t from = std::max(range.begin, start);
    const std::size_t to = std::min(range.end, start + count);
    if (from < to) visit(PartRange{i, from - start, to - from, from - range.begin});
    start += count;
  }
}

/// Copies a range of the batch's vector from this rank's inputs to contiguous memory: reduced over
/// the devices of this process on the way (what is not reduced is the first one's), or the identity
/// where there is no input. `streaming`: around the caches.
void copy_in(const Batch& batch, topology::Range range, std::byte* to, bool streaming = false);

/// Where a range lies in this rank's inputs if it need not be copied: in one part, of one device.
const std::byte* in_place(const Batch& batch, topology::Range range);

/// Copies to all outputs of this rank; an output that is where the data comes from stays as it is.
/// `streaming`: around the caches.
void copy_out(const Batch& batch, const PartRange& part_range, const void* from, bool streaming);
void copy_out(const Batch& batch, topology::Range range, const std::byte* from, bool streaming);

/// Reduces a range to all outputs of this rank; no output: nothing. Leaves the sources' pointers
/// behind the last element.
void reduce_out(const Batch& batch, const reduce::Kernel& kernel, std::span<const void*> sources,
                topology::Range range, bool streaming);

/// memcpy, around the caches if `streaming`.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming);

}  // namespace tutti::collective
