#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../world.h"

namespace tutti::coordinator::test {

struct Search {
  /// Among events of different ranks that cannot influence one another, try one order only: every
  /// end and every state of each rank is reached all the same. For worlds without deaths and early
  /// deadlines.
  bool reduce = false;
  bool count_rank_states = false;
  std::uint64_t most_states = 50'000'000;
};

struct Found {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t ends = 0;
  std::uint64_t rank_states = 0;  ///< if asked for
  bool gave_up = false;           ///< too many states
  std::optional<std::string> violation;
  std::vector<std::string> path;  ///< events that lead to it
};

/// Tries every order of events from here, each state once. Stops at the first violation.
Found explore(const World& start, const Search& search = {});

/// The world after always taking the first event, until that is enough.
World advanced(World world, bool (*enough)(const World&));

}  // namespace tutti::coordinator::test
