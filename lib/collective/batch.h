#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/shares.h"
#include "reduce/reduce.h"
#include "topology/topology.h"
#include "tutti/collective_kind.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"
#include "tutti/wire_format.h"

namespace tutti::cuda {
class Event;
}

namespace tutti::collective {

class Ends;

enum class Progress : std::uint8_t { done, moved, waiting };

/// A tensor, or a part of one, in a batch, by its addresses. Views into memory that the runtime
/// keeps.
struct TensorPart {
  std::span<const void* const> ins;  ///< one a device; none: a rank without data (joined, no root)
  std::span<void* const> outs;       ///< one a device, or none; each equal to an `in`, or apart
  std::size_t count = 0;             ///< elements
  /// Which elements of the part `ins` and `outs` begin with. Not 0 only for a rank's shard: the
  /// output of a reduce_scatter, the input of an allgather.
  std::size_t in_first = 0;
  std::size_t out_first = 0;
  /// Tensors on a GPU: copies from and to them wait for it. Null: they need not.
  const cuda::Event* ready = nullptr;
};

/// The elements of a sharded tensor that move together. Seen as a table, each rank's shard is a
/// column, and some rows move. The last row may lack columns.
struct Rows {
  std::size_t whole = 0;  ///< elements of the tensor
  int ranks = 1;
  topology::Range rows;

  /// The rows for the part [begin, begin + count) of a plan. Consecutive parts have consecutive
  /// rows, and every rank has elements in each.
  static Rows of_part(std::size_t whole, int ranks, std::size_t begin, std::size_t count);
  /// A rank's elements in these rows, as a range of the tensor.
  topology::Range column(int rank) const;
  std::size_t count() const;
};

/// Parts that move together, seen as one vector of elements, one part after the other. Equal on all
/// ranks but for the addresses, their number, and `whole_bytes`.
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
  /// Bytes of the whole tensors that the parts belong to. If they exceed the caches, results are
  /// written by non-temporal stores; this changes no bit.
  std::size_t whole_bytes = 0;
  Rows rows;      ///< sharded only: what moves of the batch's one part, the whole tensor
  Shares shares;  ///< all_to_all only: what moves; its one part has the whole input and output
  /// The ends that copy between the tensors and staging memory, and outlive the batch. Null: the
  /// tensors lie in this process's memory. Either all ranks have such ends for a batch, or none.
  Ends* ends = nullptr;
  /// It is an allreduce with ends of its own, and every rank has data: the ranks of a node may move
  /// it by their group (`Grouping`).
  bool may_group = false;

  /// One of the halves of an allreduce.
  bool is_sharded() const { return tutti::is_sharded(kind); }
  bool is_all_to_all() const { return kind == CollectiveKind::all_to_all; }
  /// The elements that move; in an all_to_all, those that the busiest rank moves.
  std::size_t count() const;
  std::size_t bytes() const { return count() * size_of(dtype); }
  /// About how many bytes lie together in a tensor that move together.
  std::size_t bytes_a_piece() const {
    return bytes() / (is_all_to_all() ? static_cast<std::size_t>(shares.ranks) : parts.size());
  }
  /// With several nodes: by what the sum of a node, and the sum over nodes, is divided. 16-bit
  /// floats are divided in the node, for a node's sum may be too large for them though the average
  /// is not. Others are divided once, at the end.
  double divisor_in_node() const { return size_of(dtype) == 2 ? divisor : 1; }
  double divisor_between() const { return size_of(dtype) == 2 ? 1 : divisor; }
  reduce::Kernel kernel_in_node(bool several_nodes) const {
    return {dtype, dtype, op, several_nodes ? divisor_in_node() : divisor};
  }
  reduce::Kernel kernel_between() const { return {dtype, dtype, op, divisor_between()}; }
  /// Whether inputs and outputs, of the whole tensors, are more than fits in so much cache.
  bool exceeds(std::size_t cache_bytes) const {
    return std::max(bytes(), whole_bytes) > cache_bytes / 2;
  }
};

/// The elements of one part that lie in a given range of the batch's vector.
struct PartRange {
  std::size_t part = 0;    ///< its index
  std::size_t first = 0;   ///< where they begin in the part
  std::size_t count = 0;   ///< at least 1
  std::size_t before = 0;  ///< elements of the range that come before them
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

/// Copies a range of the batch's vector from this rank's inputs to contiguous memory. Reducing
/// collectives reduce over this process's devices on the way; others take the first device's. Where
/// there is no input the operation's identity is written. `streaming`: by non-temporal stores.
void copy_in(const Batch& batch, topology::Range range, std::byte* to, bool streaming = false);
void copy_in(const Batch& batch, const PartRange& part_range, std::byte* to, bool streaming);

/// Where a range lies in this rank's inputs, if it lies in one part and there is one device; else
/// null.
const std::byte* in_place(const Batch& batch, topology::Range range);

/// Copies to all outputs of this rank, but not to one that is `from` itself. `streaming`: by
/// non-temporal stores.
void copy_out(const Batch& batch, const PartRange& part_range, const void* from, bool streaming);
void copy_out(const Batch& batch, topology::Range range, const std::byte* from, bool streaming);

/// Reduces a range to all outputs of this rank, if there are any. Afterwards the sources' pointers
/// are behind the last element.
void reduce_out(const Batch& batch, const reduce::Kernel& kernel, std::span<const void*> sources,
                topology::Range range, bool streaming);

/// memcpy; by non-temporal stores if `streaming`.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming);

}  // namespace tutti::collective
