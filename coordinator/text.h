#pragma once
#include <string>
#include <vector>

#include "coordinator/types.h"

namespace tutti::coordinator {

/// Names the key in a list: "'w'", "a barrier".
std::string name_of(const Key& key);

/// Names the key: "key 'w'", "barrier".
std::string named(const Key& key);

/// Lists ranks: "rank 3", "ranks 0-2 and 5". The ranks are ascending, and there is at least one.
std::string rank_list(const std::vector<int>& ranks);

/// "0.5 s", "30 s".
std::string seconds(Time time);

/// Lists names: "'a', 'b' and 3 more". At most `shown` are named.
std::string some_of(const std::vector<std::string>& names, std::size_t shown);

/// Says "in flight on rank 1: 'a', 'b'", or that no key is in flight.
std::string flight_text(int rank, const std::vector<std::string>& keys);

/// The signature that a group of ranks gave for a key.
struct Said {
  Signature signature;
  std::vector<int> ranks;
};

/// Says "key 'w': shapes differ: ranks 0-2 have (2, 3), rank 3 has (3, 2)". The signatures must
/// differ.
std::string explain_mismatch(const Key& key, const std::vector<Said>& said);

/// The ranks whose signature differs from that of the lowest rank, ascending.
std::vector<int> differing_ranks(const std::vector<Said>& said);

}  // namespace tutti::coordinator
