#include "runtime/lookout.h"

#include <fmt/format.h>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti::runtime {

Lookout::Lookout()
    : report_([](const control::LostRank& lost) {
        base::log().error("rank {} is lost: {} while a store was created", lost.rank, lost.reason);
      }) {}

std::optional<control::LostRank> Lookout::find() {
  // First, for a rank that told of a loss and has ended since is not what was lost.
  if (listen_) {
    if (auto told = listen_()) return told;
  }
  for (const Ask& watch : watched_) {
    auto lost = watch();
    if (!lost) continue;
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
