#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/batch.h"
#include "collective/chunks.h"
#include "topology/topology.h"

namespace tutti::collective {

/// The division of a batch's vector into chunks, and of a chunk into the lanes' slices.
///
/// A chunk of an allreduce is a range of the vector. The lanes share it evenly.
///
/// A chunk of a sharded batch consists of some rows of all ranks' columns (`Rows`), one column
/// after the other. Lane i serves the local ranks i, i + lanes, ... The columns of a lane lie
/// together, and among them those of a node. So a lane's slice is a range of the chunk. The block
/// that the lane exchanges with a node is a range of the slice.
class ChunkLayout {
 public:
  /// The topology outlives this object.
  explicit ChunkLayout(const topology::Topology& topology);
  /// `before` counts the chunks of all batches before this one.
  void start(const Batch& batch, std::size_t slot_bytes, std::uint64_t before);

  const Chunks& chunks() const { return chunks_; }
  /// The number of elements of a chunk. The ranges below are elements of a chunk, too.
  std::size_t size(std::uint64_t chunk) const;
  topology::Range slice(std::uint64_t chunk, int lane) const;
  /// For sharded batches: the column of a rank.
  topology::Range column(std::uint64_t chunk, int rank) const;
  /// For sharded batches: for each node the block of a lane's slice that is for the node's ranks,
  /// counted from the beginning of the slice. Valid until the next call.
  const std::vector<topology::Range>& blocks(std::uint64_t chunk, int lane);

  /// Elements that lie together both in the chunk and in the vector.
  struct ChunkRange {
    std::size_t at = 0;  ///< the element of the chunk at which they begin
    topology::Range range;
    int rank = -1;  ///< sharded batches only: the rank to which they belong
  };
  /// Calls `visit(range)` for each such range within `part`, which holds elements of a chunk, in
  /// order.
  template <typename Visit>
  void for_each_range(std::uint64_t chunk, topology::Range part, const Visit& visit) const {
    if (!sharded_) {
      const std::size_t begin = chunks_.range(chunk).begin;
      visit(ChunkRange{part.begin, {begin + part.begin, begin + part.end}, -1});
      return;
    }
    for (const int rank : order_) {
      const topology::Range column = this->column(chunk, rank);
      const std::size_t from = std::max(part.begin, column.begin);
      const std::size_t to = std::min(part.end, column.end);
      if (from >= to) continue;
      const std::size_t shift = rows(chunk).column(rank).begin - column.begin;
      visit(ChunkRange{from, {from + shift, to + shift}, rank});
    }
  }

 private:
  Rows rows(std::uint64_t chunk) const;
  /// The element of a chunk at which the column at this position of the order begins.
  std::size_t offset(std::uint64_t chunk, std::size_t position) const;
  std::size_t first(int lane, int node) const;

  const topology::Topology& topology_;
  const int lanes_;
  std::vector<int> order_;                ///< ranks, as their columns lie in a chunk
  std::vector<std::size_t> position_of_;  ///< by rank
  std::vector<std::size_t> first_;        ///< by lane and node: the position of the first rank

  bool sharded_ = false;
  Chunks chunks_;  ///< in elements; for sharded batches, in rows
  Rows rows_;
  /// By position: the number of columns before it that lack the last row.
  std::vector<std::size_t> shorter_;
  std::vector<topology::Range> blocks_;
};

}  // namespace tutti::collective
