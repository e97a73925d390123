#include "collective/small.h"

namespace tutti::collective {

bool Small::takes(const Batch& batch) const {
  return topology_.node_count() == 1 && batch.bytes() <= memory_.layout().small_bytes;
}

void Small::put(const Batch& batch, std::uint64_t sequence) const {
  if (batch.kind == Batch::Kind::broadcast && batch.root != topology_.rank) return;
  copy_in(batch, {0, batch.count()}, memory_.small(memory_.local_index(), sequence));
}

void Small::finish(const Batch& batch, std::uint64_t sequence) {
  if (batch.kind == Batch::Kind::broadcast) {
    const int root = topology_.local_index_of[static_cast<std::size_t>(batch.root)];
    copy_out(batch, {0, batch.count()}, memory_.small(root, sequence), false);
  } else {
    finish_allreduce(batch, sequence);
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

}  // namespace tutti::collective
