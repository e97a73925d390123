#pragma once
#include <cstddef>

#include "tutti/export.h"

namespace tutti {

/// A rank's share of a tensor: its elements [begin, end) in row-major order, whatever the shape.
struct Shard {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t count() const { return end - begin; }
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// The share of `rank` among `size` ranks when `count` elements are split as evenly as whole
/// elements can be: from count·rank/size to count·(rank+1)/size, both rounded down. What
/// `KVStore::reduce_scatter` gives a rank and `KVStore::allgather` takes from it. Throws
/// `invalid_argument` unless 0 <= rank < size.
TUTTI_EXPORT Shard shard(std::size_t count, int rank, int size);

}  // namespace tutti
