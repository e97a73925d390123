#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

/// Decides which servers keep which value. A value below the bound, or one that must be whole, goes
/// to the server with the fewest bytes. A larger value goes to all servers in equal pieces. A key
/// keeps its placement even if its size changes later. So all contributions to a round meet at the
/// same pieces.
class Directory {
 public:
  /// A value with at least `big_count` elements is split.
  Directory(int servers, std::uint64_t big_count);

  /// Answers in the order of the question. Places new keys in the order of their size, the largest
  /// first. Throws `internal` if the servers have no room for the values, or if a key occurs twice.
  Located locate(const Locate& asked);
  struct HeldBy {
    Held held;
    int server = 0;
  };
  /// Places values whose pieces servers already have. Call it before any other value is placed.
  /// Skips values that lack a piece. Fails if a piece occurs twice.
  std::optional<Failure> adopt(const std::vector<HeldBy>& pieces);
  /// The keys that `adopt` has skipped.
  const std::vector<Key>& dropped() const { return dropped_; }
  /// All keys that were placed.
  Located all() const;

 private:
  /// Says why the servers have no room for the value. Empty if they have room.
  std::string shortage_for(const Locate::Value& value) const;
  Places place(const Locate::Value& value);
  Places places_of(const std::map<std::uint32_t, int>& found) const;
  int emptiest() const;

  std::uint64_t big_count_;
  std::vector<std::uint64_t> bytes_;  ///< by server
  std::map<Key, Places> placed_;
  std::vector<Key> dropped_;
};

/// The bytes of the largest piece when a value is placed, unless the value must be whole. A piece
/// travels in one message, and a more urgent piece waits for the end of that message. While a
/// server sums a piece and answers, the next pieces are on their way. So with k pieces a server,
/// push and pull take (k + 1) / (2 k) of the time that they would take one after the other.
inline constexpr std::uint64_t largest_piece = std::uint64_t{128} << 10;

}  // namespace tutti::ps
