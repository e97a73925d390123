#include "runtime/loss_log.h"

#include <fmt/format.h>

#include <vector>

#include "base/log.h"
#include "coordinator/text.h"

namespace tutti::runtime {

void LossLog::write(const control::LostRank& lost) {
  // A rank that fails by itself says why in its own words.
  if (lost.rank == rank_) return;
  constexpr std::size_t shown = 5;
  std::string line = fmt::format("rank {} is lost: {}", lost.rank, lost.reason);
  std::vector<std::string> names;
  for (const Key& key : inbox_.in_flight()) names.push_back(key.describe());
  if (!names.empty()) {
    line += fmt::format("; in flight on rank {}: {}", rank_, coordinator::some_of(names, shown));
  }
  write(line);
}

void LossLog::write(const std::string& line) {
  if (!written_.exchange(true)) base::log().error("{}", line);
}

}  // namespace tutti::runtime
