#pragma once
#include <cstddef>

#include "tutti/export.h"

namespace tutti {

/// A rank's share of a tensor: the elements [begin, end) in row-major order. The tensor's shape
/// plays no part.
struct Shard {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t count() const { return end - begin; }
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Returns the share of `rank` when `size` ranks split `count` elements as evenly as possible. The
/// share goes from count·rank/size to count·(rank+1)/size, both rounded down.
/// `KVStore::reduce_scatter` gives each rank its share, and `KVStore::allgather` takes it. Throws
/// `invalid_argument` unless 0 <= rank < size.
TUTTI_EXPORT Shard shard(std::size_t count, int rank, int size);

}  // namespace tutti
