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
  /// `rank` is the other rank of the call. For a receive it may be `any_peer`.
  void add(int rank, int tag) { ++calls_[{tag, rank}]; }
  /// Takes one call of this rank and tag. Returns false if there is none.
  bool take(int rank, int tag);
  /// Takes one call of this tag, and returns its rank. Returns nothing if there is none.
  std::optional<int> take_of_any(int tag);
  /// Forgets the calls of a rank that has left the store.
  void forget(int rank);

 private:
  std::map<std::pair<int, int>, std::uint64_t> calls_;  ///< by tag and rank; none is 0
};

}  // namespace tutti::p2p
