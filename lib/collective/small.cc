#include "collective/small.h"

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
  return topology_.node_count() == 1 && batch.bytes() <= memory_.layout().small_bytes;
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

void Small::finish(const Batch& batch, std::uint64_t sequence) {
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

void Small::finish_allreduce(const Batch& batch, std::uint64_t sequence) {
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor};
  sources_.clear();
  for (int local = 0; local < memory_.local_size(); ++local) {
    sources_.push_back(memory_.small(local, sequence));
  }
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
