#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// The collectives that a store runs. `KVStore::pushpull` is the allreduce.
enum class CollectiveKind : std::uint8_t { allreduce, broadcast, reduce_scatter, allgather };

/// The method of KVStore that runs it: "pushpull", "broadcast", "reduce_scatter", "allgather".
TUTTI_EXPORT std::string_view name(CollectiveKind kind);

/// Whether it combines the ranks' values: allreduce and reduce_scatter.
constexpr bool is_reducing(CollectiveKind kind) {
  return kind == CollectiveKind::allreduce || kind == CollectiveKind::reduce_scatter;
}

/// Whether it is one of the two halves of an allreduce, where every rank has a shard of the tensor.
constexpr bool is_sharded(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::allgather;
}

}  // namespace tutti
