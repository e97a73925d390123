#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// The collectives that a store runs. `KVStore::pushpull` is the allreduce.
enum class CollectiveKind : std::uint8_t {
  allreduce,
  broadcast,
  reduce_scatter,
  allgather,
  all_to_all
};

/// The method of KVStore that runs it: "pushpull", "broadcast", "reduce_scatter", "allgather",
/// "all_to_all".
TUTTI_EXPORT std::string_view name(CollectiveKind kind);

/// Whether it combines the ranks' values: allreduce and reduce_scatter.
constexpr bool is_reducing(CollectiveKind kind) {
  return kind == CollectiveKind::allreduce || kind == CollectiveKind::reduce_scatter;
}

/// Whether it is one of the two halves of an allreduce, where every rank has a shard of the tensor.
constexpr bool is_sharded(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::allgather;
}

/// Whether every rank brings elements that no other rank has: allgather and all_to_all.
constexpr bool needs_every_rank(CollectiveKind kind) {
  return kind == CollectiveKind::allgather || kind == CollectiveKind::all_to_all;
}

/// Whether several small tensors may move as one: allreduce and broadcast.
constexpr bool is_fusible(CollectiveKind kind) {
  return kind == CollectiveKind::allreduce || kind == CollectiveKind::broadcast;
}

}  // namespace tutti
