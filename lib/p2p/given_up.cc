#include "p2p/given_up.h"

#include <limits>

namespace tutti::p2p {

bool GivenUp::take(int rank, int tag) {
  const auto found = calls_.find({tag, rank});
  if (found == calls_.end()) return false;
  if (--found->second == 0) calls_.erase(found);
  return true;
}

std::optional<int> GivenUp::take_of_any(int tag) {
  const auto found = calls_.lower_bound({tag, std::numeric_limits<int>::min()});
  if (found == calls_.end() || found->first.first != tag) return std::nullopt;
  const int rank = found->first.second;
  take(rank, tag);
  return rank;
}

void GivenUp::forget(int rank) {
  std::erase_if(calls_, [&](const auto& each) { return each.first.second == rank; });
}

}  // namespace tutti::p2p
