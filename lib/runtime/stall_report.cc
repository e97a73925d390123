// Words the log of a rank on which nothing moves, and the list of the keys that were in flight when
// a rank was lost.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "coordinator/text.h"
#include "runtime/executor.h"

namespace tutti::runtime {

bool Executor::has_waiting_user() const {
  return !calls_.empty() || !peers_.messenger().empty() || join_ || depart_;
}

void Executor::report_stall() {
  constexpr std::size_t events = 8;
  const std::chrono::duration<double> waited = now() - last_move_;
  const auto level = may_leave_it_to_rank_0() ? spdlog::level::info : spdlog::level::warn;
  base::log().log(level, "nothing has moved for {:.1f} s; {}", waited.count(), stalled_text());
  // This line is for the library's authors.
  base::log().debug("{}", participant_.describe());
  const std::string last = recorder_.dump(events);
  if (!last.empty()) base::log().debug("last events: {}", last);
  stall_interval_ *= 2;
}

bool Executor::may_leave_it_to_rank_0() const {
  const bool is_planned = !running_.empty() || depart_ || !peers_.messenger().empty();
  return !is_planned && (place_.rank == 0 || stall_interval_ < 4 * stall_time_);
}

/// Each line must tell by itself which call waits for which rank.
std::string Executor::stalled_text() const {
  const std::string keys = calls_.empty() ? "" : in_flight_text() + "; ";
  if (peers_.messenger().empty()) return keys + wait_text();
  const bool has_others = !calls_.empty() || join_ || depart_;
  return (has_others ? keys + wait_text() + "; " : "") + peers_.messenger().describe();
}

std::string Executor::wait_text() const {
  if (!running_.empty()) return engine_.describe();
  if (depart_) {
    const std::string all =
        "closing the store; nobody leaves before every rank has done all that was planned";
    return place_.rank == 0 ? all + ", and rank 0 leaves last" : all;
  }
  // Until something is planned, only rank 0 knows which ranks are missing. Rank 0 logs them.
  return place_.rank == 0 ? "other ranks have not come yet"
                          : "rank 0 answers when all have come, unless it is stopped";
}

std::string Executor::in_flight_text() const {
  std::vector<std::string> keys;
  for (const CallTable::Entry& entry : calls_.in_order()) {
    keys.push_back(coordinator::name_of(entry.call->key));
  }
  return coordinator::flight_text(place_.rank, keys);
}

std::string Executor::peer_flight_text() const {
  const std::vector<std::string> calls = peers_.in_flight();
  if (calls.empty()) return "";
  constexpr std::size_t shown = 5;
  return "; between two ranks: " + coordinator::some_of(calls, shown);
}

}  // namespace tutti::runtime
