#include "runtime/failure_detector.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::runtime {
namespace {

/// The launcher takes some milliseconds to tell of an ended process. It never tells if it has
/// started another program that goes on, such as a shell.
constexpr auto word_takes = std::chrono::seconds(1);

constexpr auto count_every = std::chrono::milliseconds(250);

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

std::optional<control::FailedRank> FailureDetector::notice_of_any(const std::vector<int>& ranks) {
  for (const net::EndNotice& notice : notices_.heard()) {
    const bool is_meant = std::find(ranks.begin(), ranks.end(), notice.worker) != ranks.end();
    if (is_meant) return {{notice.worker, notice.text}};
  }
  return std::nullopt;
}

/// A rank counts as missing only if two counts lack it, because mpirun may be about to start it.
std::optional<control::FailedRank> FailureDetector::missing_among(const std::vector<int>& ranks) {
  const auto now = base::Clock::now();
  if (presence_.on_machine() != presence_.size()) return std::nullopt;
  if (now < next_count_) return missing_;
  next_count_ = now + count_every;
  const auto running = siblings_.running();
  const auto it = std::find_if(ranks.begin(), ranks.end(), [&](int rank) {
    return running && !running->contains(rank) && presence_.has_yet_to_come(rank);
  });
  const int before = std::exchange(suspect_, it == ranks.end() ? nobody : *it);
  missing_.reset();
  if (suspect_ != nobody && suspect_ == before) {
    missing_ = {suspect_, "its process ended before it had called create"};
  }
  return missing_;
}

std::optional<control::FailedRank> FailureDetector::find_unseen(const std::vector<int>& ranks) {
  auto found = notice_of_any(ranks);
  return found ? found : missing_among(ranks);
}

std::optional<control::FailedRank> FailureDetector::poll_leaving(const std::vector<int>& among) {
  return wait_until_ ? std::nullopt : presence_.poll_leaving(among);
}

std::optional<control::Presence::Lost> FailureDetector::poll_lost(
    std::chrono::milliseconds stopped_for, const std::vector<int>& among) {
  // This comes first: it knows why a process has ended that had lost another one.
  auto lost = presence_.poll_lost(stopped_for, among);
  if (!lost) {
    const auto found = find_unseen(among.empty() ? all_ranks(presence_.size()) : among);
    if (!found) return std::nullopt;
    presence_.note(*found);
    return {{*found}};
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
