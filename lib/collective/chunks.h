#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/cache_line.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// A batch's vector, divided into chunks of one size. The last chunk may be smaller. A chunk's
/// number counts all chunks of the session, as the flags of `shm::RankBlock` do.
class Chunks {
 public:
  Chunks() = default;
  /// `count` and `each` are in elements. `before` counts the chunks of all batches before this one.
  Chunks(std::size_t count, std::size_t each, std::uint64_t before)
      : count_(count), each_(each), before_(before) {}

  std::uint64_t size() const { return (count_ + each_ - 1) / each_; }
  std::uint64_t number(std::uint64_t index) const { return before_ + index; }
  /// The number of the first chunk of the next batch.
  std::uint64_t end() const { return before_ + size(); }
  topology::Range range(std::uint64_t index) const {
    return {index * each_, std::min(count_, (index + 1) * each_)};
  }

 private:
  std::size_t count_ = 0;
  std::size_t each_ = 1;
  std::uint64_t before_ = 0;
};

/// A chunk by its index in the batch, which people read, and by its number.
struct ChunkName {
  std::uint64_t index = 0;
  std::uint64_t number = 0;
};

/// The progress of a stage of the pipeline: the whole chunks that are done, and the elements of the
/// next one.
struct Cursor {
  std::uint64_t chunk = 0;
  std::size_t element = 0;

  void next_chunk() {
    ++chunk;
    element = 0;
  }
};

/// Ranks' shares begin at multiples of this number of elements. So they begin on a cache line
/// whatever the dtype, and no two ranks write the same line.
inline constexpr std::size_t granule = base::cache_line;

/// One step touches about this much memory. That takes a few tens of microseconds.
inline constexpr std::size_t step_bytes = std::size_t{512} << 10;

/// The next elements of [done, end) that one step handles if each costs `bytes_each`.
inline topology::Range next_stretch(std::size_t done, std::size_t end, std::size_t bytes_each) {
  const std::size_t most = std::max(step_bytes / bytes_each / granule * granule, granule);
  return {done, done + std::min(end - done, most)};
}

/// Whether all ranks of the node have raised the flag for the chunk that was in this chunk's slot
/// before.
bool is_slot_free(const shm::NodeMemory& memory, shm::Flag shm::RankBlock::*last_use,
                  std::uint64_t number);

/// Lists the ranks of this node, including this one, whose flag is below `wanted`: "rank 3, 5".
std::string late_ranks(const topology::Topology& topology, const shm::NodeMemory& memory,
                       shm::Flag shm::RankBlock::*flag, std::uint64_t wanted);

/// Lists the ranks whose flag is not above `number`: "; chunk 4 not reduced by rank 3" if `what` is
/// "not reduced". Empty if there are none.
std::string late_chunk(const topology::Topology& topology, const shm::NodeMemory& memory,
                       shm::Flag shm::RankBlock::*flag, ChunkName chunk, std::string_view what);

}  // namespace tutti::collective
