#include "runtime/ends.h"

#include <algorithm>
#include <numeric>

namespace tutti::runtime {
namespace {

/// From the end of a process to the launcher's word on it, which usually takes some milliseconds.
/// None comes where the launcher has started another program, which has started this process.
constexpr auto word_takes = std::chrono::seconds(1);

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

std::optional<control::LostRank> Ends::notice_of_any(const std::vector<int>& ranks) {
  for (const net::EndNotice& notice : notices_.heard()) {
    const bool is_meant = std::find(ranks.begin(), ranks.end(), notice.worker) != ranks.end();
    if (is_meant) return {{notice.worker, notice.text}};
  }
  return std::nullopt;
}

std::optional<control::Presence::Lost> Ends::poll_lost(std::chrono::milliseconds stopped_for,
                                                       const std::vector<int>& among) {
  // First, for it knows why a process has ended that had lost another one.
  auto lost = presence_.poll_lost(stopped_for, among);
  if (!lost) {
    const auto noticed = notice_of_any(among.empty() ? all_ranks(presence_.size()) : among);
    if (!noticed) return std::nullopt;
    presence_.note(*noticed);
    return {{*noticed}};
  }
  if (lost->stopped || !notices_.descriptor()) return lost;
  const auto now = base::Clock::now();
  if (!wait_until_) wait_until_ = now + word_takes;
  if (const auto noticed = notice_of_any({lost->rank})) {
    lost->reason = noticed->reason;
  } else if (now < *wait_until_) {
    return std::nullopt;
  }
  return lost;
}

}  // namespace tutti::runtime
