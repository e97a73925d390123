// What a rank says when nothing moves, and of what was in flight when one is lost.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "runtime/executor.h"

namespace tutti::runtime {

bool Executor::has_waiting_user() const {
  return !calls_.empty() || barrier_ || join_ || depart_;
}

void Executor::report_stall() {
  constexpr std::size_t events = 8;
  const std::chrono::duration<double> waited = now() - last_move_;
  base::log().warn("nothing has moved for {:.1f} s; {}; {}", waited.count(), in_call_text(),
                   wait_text());
  base::log().warn("{}", participant_.describe());
  base::log().warn("last events: {}", recorder_.dump(events));
  stall_interval_ *= 2;
}

std::string Executor::in_call_text() const {
  if (!calls_.empty()) return in_flight_text();
  return depart_ ? "closing the store" : "in a barrier or join";
}

std::string Executor::wait_text() const {
  if (!running_.empty()) return engine_.describe();
  if (depart_) {
    const std::string all = "nobody leaves before every rank has done all that was planned";
    return rank_ == 0 ? all + ", and rank 0 leaves last" : all;
  }
  // Only rank 0 knows more as long as nothing has been planned, and says so there.
  return rank_ == 0 ? "other ranks have not come yet"
                    : "rank 0 answers when all have come, unless it is stopped";
}

std::string Executor::in_flight_text() const {
  constexpr std::size_t most = 5;
  const std::vector<CallTable::Entry> calls = calls_.in_order();
  std::string text;
  for (std::size_t i = 0; i < std::min(most, calls.size()); ++i) {
    text += (i == 0 ? "" : ", ") + calls[i].call->key.describe();
  }
  if (calls.empty()) return "no key was in flight";
  if (calls.size() > most) text += fmt::format(" and {} more", calls.size() - most);
  return fmt::format("in flight: {}", text);
}

}  // namespace tutti::runtime
