#include "collective/chunk_layout.h"

#include <algorithm>

#include "base/failure.h"
#include "base/pages.h"
#include "tutti/shard.h"

namespace tutti::collective {
namespace {

/// If chunks are large enough, they are whole pages for each node and lane. Then the copied and
/// sent memory is page-aligned. Otherwise 10 MB on 8 hosts took 2.5 % longer.
std::size_t page_elements(DType dtype) {
  return base::page_bytes() / size_of(dtype);
}

/// The number of elements in a chunk: at most `most`, or a multiple of `unit`. All chunks have
/// about the same size. A small last one would not save time, because each half of its exchange
/// waits behind that of the larger ones. With even chunks 1 MB on 4 hosts took 5 % less time.
std::size_t even(std::size_t count, std::size_t most, std::size_t unit) {
  const std::size_t chunks = (count + most - 1) / most;
  const std::size_t each = (count + chunks - 1) / chunks;
  return std::min(most, (each + unit - 1) / unit * unit);
}

}  // namespace

ChunkLayout::ChunkLayout(const topology::Topology& topology)
    : topology_(topology),
      lanes_(topology.lanes()),
      position_of_(static_cast<std::size_t>(topology.size)) {
  for (int lane = 0; lane < lanes_; ++lane) {
    for (const std::vector<int>& ranks : topology.nodes) {
      first_.push_back(order_.size());
      for (auto local = static_cast<std::size_t>(lane); local < ranks.size();
           local += static_cast<std::size_t>(lanes_)) {
        position_of_[static_cast<std::size_t>(ranks[local])] = order_.size();
        order_.push_back(ranks[local]);
      }
    }
  }
  first_.push_back(order_.size());
}

void ChunkLayout::start(const Batch& batch, std::size_t slot_bytes, std::uint64_t before) {
  sharded_ = batch.is_sharded();
  const std::size_t most = slot_bytes / size_of(batch.dtype);
  if (!sharded_) {
    const auto shares = static_cast<std::size_t>(lanes_) * topology_.nodes.size();
    const std::size_t unit = page_elements(batch.dtype) * shares;
    chunks_ = Chunks(batch.count(), even(batch.count(), most, unit), before);
    return;
  }
  rows_ = batch.rows;
  base::check(most >= order_.size(), "a slot holds an element for each rank");
  const std::size_t rows = rows_.rows.size();
  chunks_ = Chunks(rows, even(rows, most / order_.size(), page_elements(batch.dtype)), before);
  const std::size_t lesser = rows_.whole / order_.size();
  shorter_.assign(1, 0);
  for (const int rank : order_) {
    const bool is_short = shard(rows_.whole, rank, rows_.ranks).count() == lesser;
    shorter_.push_back(shorter_.back() + (is_short ? 1 : 0));
  }
}

Rows ChunkLayout::rows(std::uint64_t chunk) const {
  const topology::Range range = chunks_.range(chunk);
  Rows rows = rows_;
  rows.rows = {rows_.rows.begin + range.begin, rows_.rows.begin + range.end};
  return rows;
}

std::size_t ChunkLayout::offset(std::uint64_t chunk, std::size_t position) const {
  const topology::Range range = chunks_.range(chunk);
  const bool last_row = rows_.rows.begin + range.end > rows_.whole / order_.size();
  return position * range.size() - (last_row ? shorter_[position] : 0);
}

std::size_t ChunkLayout::first(int lane, int node) const {
  const auto nodes = static_cast<std::size_t>(topology_.node_count());
  return first_[static_cast<std::size_t>(lane) * nodes + static_cast<std::size_t>(node)];
}

std::size_t ChunkLayout::size(std::uint64_t chunk) const {
  return sharded_ ? offset(chunk, order_.size()) : chunks_.range(chunk).size();
}

topology::Range ChunkLayout::slice(std::uint64_t chunk, int lane) const {
  if (lane >= lanes_) return {};
  if (!sharded_) return topology::shard(size(chunk), lanes_, lane, granule);
  return {offset(chunk, first(lane, 0)), offset(chunk, first(lane + 1, 0))};
}

topology::Range ChunkLayout::column(std::uint64_t chunk, int rank) const {
  const std::size_t position = position_of_[static_cast<std::size_t>(rank)];
  return {offset(chunk, position), offset(chunk, position + 1)};
}

const std::vector<topology::Range>& ChunkLayout::blocks(std::uint64_t chunk, int lane) {
  const std::size_t begin = slice(chunk, lane).begin;
  blocks_.clear();
  for (int node = 0; node < topology_.node_count(); ++node) {
    blocks_.push_back(
        {offset(chunk, first(lane, node)) - begin, offset(chunk, first(lane, node + 1)) - begin});
  }
  return blocks_;
}

}  // namespace tutti::collective
