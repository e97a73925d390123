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

/// A tensor, or a part of one, in a batch. It has addresses in memory that the runtime keeps.
struct TensorPart {
  std::span<const void* const> ins;  ///< one a device; none: a rank without data (joined, no root)
  std::span<void* const> outs;       ///< one a device, or none; each equal to an `in`, or apart
  std::size_t count = 0;             ///< elements
  /// The elements of the part with which `ins` and `outs` begin. Not 0 only for a rank's shard: in
  /// the output of a reduce_scatter, and in the input of an allgather.
  std::size_t in_first = 0;
  std::size_t out_first = 0;
  /// For tensors on a GPU: copies from and to them wait for this event. If it is null, they do not
  /// wait.
  const cuda::Event* ready = nullptr;
};

/// The elements of a sharded tensor that move together. In a table whose columns are the ranks'
/// shards, some rows move together. The last row may lack columns.
struct Rows {
  std::size_t whole = 0;  ///< elements of the tensor
  int ranks = 1;
  topology::Range rows;

  /// The rows for the part [begin, begin + count) of a plan. Consecutive parts have consecutive
  /// rows, and every rank has elements in each part.
  static Rows of_part(std::size_t whole, int ranks, std::size_t begin, std::size_t count);
  /// The elements of a rank in these rows, as a range of the tensor.
  topology::Range column(int rank) const;
  std::size_t count() const;
};

/// Parts that move together, seen as one vector of elements, one part after the other. All members
/// are equal on all ranks, except for the addresses, the number of addresses, and `whole_bytes`.
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
  /// The bytes of the whole tensors to which the parts belong. If they exceed the caches, results
  /// are written by non-temporal stores. That changes no bit of the result.
  std::size_t whole_bytes = 0;
  /// Sharded batches only: the rows that move; the batch's one part is the whole tensor.
  Rows rows;
  /// All_to_all only: the shares that move; its one part has the whole input and output.
  Shares shares;
  /// The ends that copy between the tensors and staging memory. They outlive the batch. If they are
  /// null, the tensors lie in this process's memory. Either all ranks have such ends for a batch,
  /// or none.
  Ends* ends = nullptr;
  /// Whether the ranks of a node may move the batch by their group (`Grouping`). It is then an
  /// allreduce with ends of its own for which every rank has data.
  bool may_group = false;

  /// One of the halves of an allreduce.
  bool is_sharded() const { return tutti::is_sharded(kind); }
  bool is_all_to_all() const { return kind == CollectiveKind::all_to_all; }
  /// The number of elements that move. In an all_to_all, the number that the busiest rank moves.
  std::size_t count() const;
  std::size_t bytes() const { return count() * size_of(dtype); }
  /// About how many of the bytes that move together lie side by side in a tensor.
  std::size_t bytes_a_piece() const {
    return bytes() / (is_all_to_all() ? static_cast<std::size_t>(shares.ranks) : parts.size());
  }
  /// The numbers by which, with several nodes, the sum of a node and the sum over nodes are
  /// divided. 16-bit floats are divided in the node, because a node's sum may be too large for them
  /// though the average is not. Other types are divided once, at the end.
  double divisor_in_node() const { return size_of(dtype) == 2 ? divisor : 1; }
  double divisor_between() const { return size_of(dtype) == 2 ? 1 : divisor; }
  reduce::Kernel kernel_in_node(bool several_nodes) const {
    return {dtype, dtype, op, several_nodes ? divisor_in_node() : divisor};
  }
  reduce::Kernel kernel_between() const { return {dtype, dtype, op, divisor_between()}; }
  /// Whether inputs and outputs of the whole tensors exceed a cache of this size.
  bool exceeds(std::size_t cache_bytes) const {
    return std::max(bytes(), whole_bytes) > cache_bytes / 2;
  }
};

/// The elements of one part that lie in a given range of the batch's vector.
struct PartRange {
  std::size_t part = 0;    ///< its index
  std::size_t first = 0;   ///< the element of the part at which they begin
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

/// Copies a range of the batch's vector from this rank's inputs to contiguous memory. If the
/// collective reduces, it reduces over this process's devices; otherwise it takes the first
/// device's input. If there is no input, it writes the operation's identity. `streaming` asks for
/// non-temporal stores.
void copy_in(const Batch& batch, topology::Range range, std::byte* to, bool streaming = false);
void copy_in(const Batch& batch, const PartRange& part_range, std::byte* to, bool streaming);

/// The place of a range in this rank's inputs, if the range lies in one part and there is one
/// device. Otherwise null.
const std::byte* in_place(const Batch& batch, topology::Range range);

/// Copies to all outputs of this rank, except to an output that is `from` itself. `streaming` asks
/// for non-temporal stores.
void copy_out(const Batch& batch, const PartRange& part_range, const void* from, bool streaming);
void copy_out(const Batch& batch, topology::Range range, const std::byte* from, bool streaming);

/// Reduces a range to all outputs of this rank, if there are any. Afterwards the pointers of the
/// sources are behind the last element.
void reduce_out(const Batch& batch, const reduce::Kernel& kernel, std::span<const void*> sources,
                topology::Range range, bool streaming);

/// Does the same as memcpy. `streaming` asks for non-temporal stores.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming);

}  // namespace tutti::collective
