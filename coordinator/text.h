#pragma once
#include <string>
#include <vector>

#include "coordinator/types.h"

namespace tutti::coordinator {

/// "'w'" for a list of keys; "a barrier".
std::string name_of(const Key& key);

/// "key 'w'"; "barrier".
std::string named(const Key& key);

/// "rank 3", "ranks 0-2 and 5"; ascending ranks, at least one.
std::string rank_list(const std::vector<int>& ranks);

/// "0.5 s", "30 s".
std::string seconds(Time time);

/// "'a', 'b' and 3 more"; at most `shown` by name.
std::string some_of(const std::vector<std::string>& names, std::size_t shown);

/// "in flight on rank 1: 'a', 'b'", or that none is.
std::string flight_text(int rank, const std::vector<std::string>& keys);

/// The signature that a group of ranks gave for a key.
struct Said {
  Signature signature;
  std::vector<int> ranks;
};

/// "key 'w': shapes differ: ranks 0-2 have (2, 3), rank 3 has (3, 2)". The signatures differ.
std::string explain_mismatch(const Key& key, const std::vector<Said>& said);

/// The ranks that say something else than the lowest one does, ascending.
std::vector<int> differing_ranks(const std::vector<Said>& said);

}  // namespace tutti::coordinator
