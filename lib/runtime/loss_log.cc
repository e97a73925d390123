#include "runtime/loss_log.h"

#include <fmt/format.h>

#include <vector>

#include "base/log.h"
#include "coordinator/text.h"

namespace tutti::runtime {

void LossLog::write(const control::LostRank& lost) {
  // A rank that fails by itself logs the reason itself.
  if (lost.rank == rank_) return;
  std::vector<std::string> keys;
  for (const Key& key : inbox_.in_flight()) keys.push_back(key.describe());
  write(fmt::format("rank {} is lost: {}; {}", lost.rank, lost.reason,
                    coordinator::flight_text(rank_, keys)));
}

void LossLog::write(const std::string& line) {
  if (!written_.exchange(true)) base::log().error("{}", line);
}

}  // namespace tutti::runtime
