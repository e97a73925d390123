#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace tutti::p2p {

/// The calls of one kind that ended before their counterparts came. Each ends its counterpart when
/// that comes. They are only counted, by rank and tag.
class GivenUp {
 public:
  /// `rank`: the other rank of the call; of a receive also `any_peer`.
  void add(int rank, int tag) { ++calls_[{tag, rank}]; }
  /// Takes one call of this rank and tag. False: there is none.
  bool take(int rank, int tag);
  /// Takes one call of this tag; its rank. Nothing: there is none.
  std::optional<int> take_of_any(int tag);
  /// The rank has left the store.
  void forget(int rank);

 private:
  std::map<std::pair<int, int>, std::uint64_t> calls_;  ///< by tag and rank; none is 0
};

}  // namespace tutti::p2p
