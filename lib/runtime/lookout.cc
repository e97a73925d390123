#include "runtime/lookout.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// A rank waits so long to learn why another one gave up. The reason may have to pass through a
/// third rank, and on a busy machine a rank may get no processor for most of a second.
constexpr auto farewell = std::chrono::seconds(2);

}  // namespace

Lookout::Lookout(std::function<base::Clock::time_point()> now)
    : now_(std::move(now)), report_([](const control::FailedRank& lost) {
        base::log().error("rank {} is lost: {} while a store was created", lost.rank, lost.reason);
      }) {}

bool Lookout::is_excused(int rank) {
  if (!gave_up_ || !gave_up_(rank)) return false;
  const auto now = now_();
  if (!excused_until_) excused_until_ = now + farewell;
  return now < *excused_until_;
}

std::optional<control::FailedRank> Lookout::find() {
  // This comes first: a rank that told of a loss and has ended since is not the lost rank.
  if (listen_) {
    if (auto told = listen_()) return told;
  }
  for (const Ask& watch : watched_) {
    auto lost = watch();
    if (!lost || is_excused(lost->rank)) continue;
    if (tell_) tell_(*lost);
    return lost;
  }
  for (const Ask& ask : asked_) {
    if (auto lost = ask()) return lost;
  }
  return std::nullopt;
}

void Lookout::look() {
  if (!lost_) {
    lost_ = find();
    if (!lost_) return;
    report_(*lost_);
  }
  throw Error(ErrorCode::peer_lost,
              fmt::format("rank {} is lost: {}; it happened while a store was created, so no key "
                          "was in flight",
                          lost_->rank, lost_->reason),
              {.key = {}, .ranks = {lost_->rank}});
}

}  // namespace tutti::runtime
