#pragma once
#include <cstddef>
#include <span>

#include "topology/topology.h"

namespace tutti::collective {

/// The elements of an all_to_all that one batch moves. The *length* of an all_to_all is the number
/// of elements of its busiest rank, the one that sends or receives most. A batch moves a stretch of
/// this length. In this stretch every pair of ranks moves the same fraction of its elements, up to
/// rounding. So all ranks are busy in every part and chunk. Plain data.
struct Shares {
  std::span<const std::size_t> counts;  ///< elements, by sender and then by receiver
  int ranks = 0;
  std::size_t length = 0;
  topology::Range stretch;  ///< the part of the length that moves

  std::size_t count(int from, int to) const {
    return counts[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                  static_cast<std::size_t>(to)];
  }
  /// The elements that move from `from` to `to` in a part of `stretch`, counted from the first
  /// element that `from` sends to `to`. Consecutive parts have consecutive elements. All shares
  /// that a rank sends have at most `part.size() + ranks` elements together. So have those that it
  /// receives.
  topology::Range share(int from, int to, topology::Range part) const;
  /// The elements that move in the whole stretch.
  topology::Range share(int from, int to) const { return share(from, to, {0, stretch.size()}); }
};

}  // namespace tutti::collective
