#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// The collective operations that a store runs. `KVStore::pushpull` runs an allreduce.
enum class CollectiveKind : std::uint8_t {
  allreduce,
  broadcast,
  reduce_scatter,
  allgather,
  all_to_all,
  barrier  ///< moves no elements
};

/// The name of the KVStore method that runs it: "pushpull", "broadcast", "reduce_scatter",
/// "allgather", "all_to_all" or "barrier".
TUTTI_EXPORT std::string_view name(CollectiveKind kind);

/// Whether it combines the ranks' values. True for allreduce and reduce_scatter.
constexpr bool is_reducing(CollectiveKind kind) {
  return kind == CollectiveKind::allreduce || kind == CollectiveKind::reduce_scatter;
}

/// Whether it is one half of an allreduce, in which every rank has a shard of the tensor. True for
/// reduce_scatter and allgather.
constexpr bool is_sharded(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::allgather;
}

/// Whether every rank contributes elements that no other rank has. True for allgather and
/// all_to_all.
constexpr bool needs_every_rank(CollectiveKind kind) {
  return kind == CollectiveKind::allgather || kind == CollectiveKind::all_to_all;
}

/// Whether the store may move several small tensors as one. True for allreduce and broadcast.
constexpr bool is_fusible(CollectiveKind kind) {
  return kind == CollectiveKind::allreduce || kind == CollectiveKind::broadcast;
}

}  // namespace tutti
