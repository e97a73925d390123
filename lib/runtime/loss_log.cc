#include "runtime/loss_log.h"

#include <fmt/format.h>

#include <vector>

#include "base/log.h"
#include "coordinator/text.h"

namespace tutti::runtime {

void LossLog::write(const control::FailedRank& lost) {
  // A rank that fails by itself has already logged the reason.
  if (lost.rank == place_.rank) return;
  std::vector<std::string> keys;
  for (const Key& key : inbox_.in_flight()) keys.push_back(coordinator::name_of(key));
  write(lost.rank, fmt::format("rank {} is lost: {}; {}", lost.rank, lost.reason,
                               coordinator::flight_text(place_.rank, keys)));
}

void LossLog::write(int rank, const std::string& message) {
  if (!written_.exchange(true)) base::log().error("{}", place_.announce(rank, message));
}

}  // namespace tutti::runtime
