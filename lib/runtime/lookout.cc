#include "runtime/lookout.h"

#include <fmt/format.h>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti::runtime {

Lookout::Lookout()
    : report_([](const control::LostRank& lost) {
        base::log().error("rank {} is lost: {} while a store was created", lost.rank, lost.reason);
      }) {}

void Lookout::look() {
  for (const Ask& ask : asked_) {
    const auto lost = ask();
    if (!lost) continue;
    if (!reported_) report_(*lost);
    reported_ = true;
    throw Error(ErrorCode::peer_lost,
                fmt::format("rank {} is lost: {}; it happened while a store was created, so no key "
                            "was in flight",
                            lost->rank, lost->reason));
  }
}

}  // namespace tutti::runtime
