#include "collective/small.h"

#include <cstring>

namespace tutti::collective {
namespace {

/// Calls `visit(rank, offset, column)` for each rank's column of a sharded batch, the columns lying
/// one after the other.
template <typename Visit>
void for_each_column(const Batch& batch, const Visit& visit) {
  std::size_t offset = 0;
  for (int rank = 0; rank < batch.rows.ranks; ++rank) {
    const topology::Range column = batch.rows.column(rank);
    visit(rank, offset * size_of(batch.dtype), column);
    offset += column.size();
  }
}

}  // namespace

bool Small::takes(const Batch& batch) const {
  if (batch.bytes() > memory_.layout().small_bytes) return false;
  return !several_nodes() || (!batch.sharded() && batch.wire == WireFormat::none);
}

void Small::put(const Batch& batch, std::uint64_t sequence) const {
  if (batch.kind == Batch::Kind::broadcast && batch.root != topology_.rank) return;
  std::byte* const mine = memory_.small(memory_.local_index(), sequence);
  if (!batch.sharded()) return copy_in(batch, {0, batch.count()}, mine);
  for_each_column(batch, [&](int rank, std::size_t offset, topology::Range column) {
    if (batch.kind == Batch::Kind::allgather && rank != topology_.rank) return;
    copy_in(batch, column, mine + offset);
  });
}

std::span<const std::byte> Small::pack(const Batch& batch, std::uint64_t sequence) {
  if (batch.kind == Batch::Kind::broadcast) {
    // Of the blocks the one of the root's node counts.
    const bool here = node_of(batch.root) == static_cast<std::size_t>(topology_.node());
    const auto root = static_cast<std::size_t>(batch.root);
    return {memory_.small(here ? topology_.local_index_of[root] : 0, sequence), batch.bytes()};
  }
  if (memory_.local_size() == 1) return {memory_.small(0, sequence), batch.bytes()};
  // The last sum divides.
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op};
  gather_sources(sequence);
  reduce::reduce(kernel, sources_, sum_.data(), batch.count());
  return {sum_.data(), batch.bytes()};
}

void Small::unpack(const Batch& batch, std::uint64_t sequence, LeaderGate& gate) {
  std::byte* const result = memory_.small(memory_.local_index(), sequence);
  if (batch.kind == Batch::Kind::broadcast) {
    std::memcpy(result, gate.block(node_of(batch.root)), batch.bytes());
    return;
  }
  blocks_.clear();
  for (std::size_t node = 0; node < topology_.nodes.size(); ++node) {
    blocks_.push_back(gate.block(node));
  }
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor};
  sum_of_nodes_(kernel, blocks_, result, batch.count());
}

void Small::finish(const Batch& batch, std::uint64_t sequence) {
  if (several_nodes()) {
    return copy_out(batch, {0, batch.count()}, memory_.small(0, sequence), false);
  }
  switch (batch.kind) {
    case Batch::Kind::allreduce:
      return finish_allreduce(batch, sequence);
    case Batch::Kind::reduce_scatter:
      return finish_reduce_scatter(batch, sequence);
    case Batch::Kind::allgather:
      return finish_allgather(batch, sequence);
    case Batch::Kind::broadcast:
      const int root = topology_.local_index_of[static_cast<std::size_t>(batch.root)];
      return copy_out(batch, {0, batch.count()}, memory_.small(root, sequence), false);
  }
}

void Small::gather_sources(std::uint64_t sequence) {
  sources_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    sources_.push_back(memory_.small(local, sequence));
  }
}

void Small::finish_allreduce(const Batch& batch, std::uint64_t sequence) {
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor};
  gather_sources(sequence);
  if (batch.pieces.size() == 1 && batch.pieces[0].outs.size() == 1) {
    reduce::reduce(kernel, sources_, batch.pieces[0].outs[0], batch.count());
    return;
  }
  // Many small tensors: one sum and a copy each is quicker than a sum each.
  reduce::reduce(kernel, sources_, sum_.data(), batch.count());
  copy_out(batch, {0, batch.count()}, sum_.data(), false);
}

void Small::finish_reduce_scatter(const Batch& batch, std::uint64_t sequence) {
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor};
  for_each_column(batch, [&](int rank, std::size_t offset, topology::Range column) {
    if (rank != topology_.rank) return;
    sources_.clear();
    for (int local = 0; local < memory_.local_size(); ++local) {
      sources_.push_back(memory_.small(local, sequence) + offset);
    }
    reduce_out(batch, kernel, sources_, column, false);
  });
}

void Small::finish_allgather(const Batch& batch, std::uint64_t sequence) const {
  for_each_column(batch, [&](int rank, std::size_t offset, topology::Range column) {
    const int owner = topology_.local_index_of[static_cast<std::size_t>(rank)];
    copy_out(batch, column, memory_.small(owner, sequence) + offset, false);
  });
}

}  // namespace tutti::collective
