#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/batch.h"
#include "collective/chunks.h"
#include "topology/topology.h"

namespace tutti::collective {

/// How a batch's vector is cut in chunks, and which part of a chunk is whose.
///
/// An allreduce's chunk is a stretch of the vector, and each lane sums an even share of it. A
/// sharded batch's chunk is some rows of all ranks' columns: one column after the other, those that
/// a lane cares for together, and of these those of one node, so that a lane's slice and what it
/// exchanges with a node are stretches, too. Lane i cares for local ranks i, i + lanes, ...
class ChunkLayout {
 public:
  /// The topology outlives it.
  explicit ChunkLayout(const topology::Topology& topology);
  /// `before` counts the chunks of all batches before.
  void start(const Batch& batch, std::size_t slot_bytes, std::uint64_t before);

  const Chunks& chunks() const { return chunks_; }
  /// Elements of a chunk; the ranges below are of these.
  std::size_t size(std::uint64_t chunk) const;
  topology::Range slice(std::uint64_t chunk, int lane) const;
  /// Sharded only: a rank's column.
  topology::Range column(std::uint64_t chunk, int rank) const;
  /// Sharded only: the part of a lane's slice that is for each node's ranks, counted from the
  /// slice's beginning. Valid until the next call.
  const std::vector<topology::Range>& blocks(std::uint64_t chunk, int lane);

  /// Elements of a chunk that lie together in the vector.
  struct ChunkRange {
    std::size_t at = 0;  ///< the first one's place in the chunk
    topology::Range range;
    int rank = -1;  ///< sharded only: whose they are
  };
  /// Calls `visit(range)` for what lies in a range of a chunk, in order.
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
  /// Where in a chunk the column begins that is `position`-th in order.
  std::size_t offset(std::uint64_t chunk, std::size_t position) const;
  std::size_t first(int lane, int node) const;

  const topology::Topology& topology_;
  const int lanes_;
  std::vector<int> order_;                ///< ranks, as their columns lie in a chunk
  std::vector<std::size_t> position_of_;  ///< by rank
  std::vector<std::size_t> first_;        ///< by lane and node: the position of the first rank

  bool sharded_ = false;
  Chunks chunks_;  ///< of elements; sharded: of rows
  Rows rows_;
  std::vector<std::size_t> shorter_;  ///< by position: columns before it without the last row
  std::vector<topology::Range> blocks_;
};

}  // namespace tutti::collective
