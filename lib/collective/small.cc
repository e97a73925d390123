#include "collective/small.h"

#include <algorithm>
#include <cstring>

#include "collective/chunks.h"

namespace tutti::collective {
namespace {

/// A stripe is so small that several processors find one each. 8 ranks on two processors took as
/// long with 4 stripes as with 16.
constexpr std::size_t stripe_bytes = 4096;
/// Below this size a rank sums everything in less time than it takes to share the work.
constexpr std::size_t worth_sharing = 8192;

/// Calls `visit(rank, offset, column)` for each rank's column of a sharded batch. `offset` is the
/// number of bytes in the columns before it.
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

void Small::put(const Batch& batch, std::uint64_t sequence) const {
  if (batch.kind == CollectiveKind::broadcast && batch.root != topology_.rank) return;
  std::byte* const mine = memory_.small(memory_.local_index(), sequence);
  if (batch.is_all_to_all()) return put_shares(batch, mine);
  if (!batch.is_sharded()) return copy_in(batch, {0, batch.count()}, mine);
  for_each_column(batch, [&](int rank, std::size_t offset, topology::Range column) {
    if (batch.kind == CollectiveKind::allgather && rank != topology_.rank) return;
    copy_in(batch, column, mine + offset);
  });
}

/// Puts the share for this rank, too: the output may be the input, and is overwritten after the
/// gate.
void Small::put_shares(const Batch& batch, std::byte* to) const {
  std::size_t first = 0;
  for (int receiver = 0; receiver < batch.shares.ranks; ++receiver) {
    const topology::Range share = batch.shares.share(topology_.rank, receiver);
    copy_in(batch, {first + share.begin, first + share.end}, to);
    to += share.size() * size_of(batch.dtype);
    first += batch.shares.count(topology_.rank, receiver);
  }
}

Piggyback::Load Small::pack(const Batch& batch, std::uint64_t sequence) {
  Piggyback::Load load{.kind = carried_by_gate(batch, site_),
                       .block = {memory_.small(0, sequence), batch.bytes()},
                       .kernel = {batch.dtype, batch.dtype, batch.op, batch.divisor_between()}};
  if (batch.kind == CollectiveKind::broadcast) {
    load.root = node_of(batch.root);
    const auto root = static_cast<std::size_t>(batch.root);
    const bool here = load.root == static_cast<std::size_t>(topology_.node());
    if (here) load.block = {memory_.small(topology_.local_index_of[root], sequence), batch.bytes()};
    return load;
  }
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor_in_node()};
  if (memory_.local_size() == 1 && kernel.divisor == 1) return load;
  gather_sources(sequence);
  reduce::reduce(kernel, sources_, sum_.data(), batch.count());
  load.block = {sum_.data(), batch.bytes()};
  return load;
}

void Small::unpack(const Batch& batch, std::uint64_t sequence, Piggyback& piggyback) {
  std::byte* const result = memory_.small(memory_.local_index(), sequence);
  if (piggyback.kind() != Piggyback::Kind::gathered) {
    std::memcpy(result, piggyback.result(), batch.bytes());
    return;
  }
  blocks_.clear();
  for (std::size_t node = 0; node < topology_.nodes.size(); ++node) {
    blocks_.push_back(piggyback.block(node));
  }
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, batch.divisor_between()};
  sum_of_nodes_(kernel, blocks_, result, batch.count());
}

void Small::finish(const Batch& batch, std::uint64_t sequence) {
  if (site_.several_nodes()) {
    return copy_out(batch, {0, batch.count()}, memory_.small(0, sequence), false);
  }
  switch (batch.kind) {
    case CollectiveKind::allreduce:
      return finish_allreduce(batch, sequence);
    case CollectiveKind::reduce_scatter:
      return finish_reduce_scatter(batch, sequence);
    case CollectiveKind::allgather:
      return finish_allgather(batch, sequence);
    case CollectiveKind::broadcast: {
      const int root = topology_.local_index_of[static_cast<std::size_t>(batch.root)];
      return copy_out(batch, {0, batch.count()}, memory_.small(root, sequence), false);
    }
    case CollectiveKind::all_to_all:
      return finish_all_to_all(batch, sequence);
    case CollectiveKind::barrier:
      return;
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
  if (memory_.layout().small_results && batch.bytes() >= worth_sharing) {
    return sum_together(batch, kernel, sequence);
  }
  if (batch.parts.size() == 1 && batch.parts[0].outs.size() == 1) {
    reduce::reduce(kernel, sources_, batch.parts[0].outs[0], batch.count());
    return;
  }
  // If there are many small tensors, one sum and a copy for each is faster than a sum for each.
  reduce::reduce(kernel, sources_, sum_.data(), batch.count());
  copy_out(batch, {0, batch.count()}, sum_.data(), false);
}

void Small::sum(const reduce::Kernel& kernel, topology::Range range, std::byte* to) {
  const std::size_t before = range.begin * size_of(kernel.in);
  offset_sources_.clear();
  for (const void* source : sources_) {
    offset_sources_.push_back(static_cast<const std::byte*>(source) + before);
  }
  reduce::reduce(kernel, offset_sources_, to + before, range.size());
}

/// No rank waits for another one. If another rank has claimed a stripe and not finished it, this
/// rank computes the stripe once more, because the other one may have lost its processor.
void Small::sum_together(const Batch& batch, const reduce::Kernel& kernel, std::uint64_t sequence) {
  const std::size_t stripes = std::min(batch.bytes() / stripe_bytes, shm::Claims::most_stripes);
  const auto range = [&](std::size_t stripe) {
    return topology::shard(batch.count(), static_cast<int>(stripes), static_cast<int>(stripe),
                           granule);
  };
  std::byte* const result = memory_.small_result(sequence);
  shm::Claims& claims = memory_.claims(sequence);
  // Ranks that begin at the same time begin with different stripes.
  const std::size_t first = stripes * static_cast<std::size_t>(memory_.local_index()) /
                            static_cast<std::size_t>(memory_.local_size());
  for (std::size_t i = 0; i < stripes; ++i) {
    const std::size_t stripe = (first + i) % stripes;
    if (!claims.claim(stripe, sequence)) continue;
    sum(kernel, range(stripe), result);
    claims.fulfil(stripe, sequence);
  }
  for (std::size_t i = 0; i < stripes; ++i) {
    const std::size_t stripe = (first + i) % stripes;
    const bool there = claims.is_fulfilled(stripe, sequence);
    if (!there) sum(kernel, range(stripe), sum_.data());
    const std::byte* const from = there ? result : sum_.data();
    copy_out(batch, range(stripe), from + range(stripe).begin * size_of(batch.dtype), false);
  }
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

void Small::finish_all_to_all(const Batch& batch, std::uint64_t sequence) const {
  std::size_t first = 0;
  for (int sender = 0; sender < batch.shares.ranks; ++sender) {
    const int local = topology_.local_index_of[static_cast<std::size_t>(sender)];
    const std::byte* from = memory_.small(local, sequence);
    for (int before = 0; before < topology_.rank; ++before) {
      from += batch.shares.share(sender, before).size() * size_of(batch.dtype);
    }
    const topology::Range share = batch.shares.share(sender, topology_.rank);
    copy_out(batch, {first + share.begin, first + share.end}, from, false);
    first += batch.shares.count(sender, topology_.rank);
  }
}

}  // namespace tutti::collective
