#pragma once
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/wait_limits.h"
#include "tutti/error.h"

namespace tutti {

/// Waits between two polls of a GPU's events. The thread first yields, for as long as a small copy
/// takes. Then it sleeps for an eighth of the time that it has waited, but at most for a
/// millisecond.
class GpuPause {
 public:
  base::Clock::duration waited() const { return base::Clock::now() - since_; }
  void take() const {
    using namespace std::chrono_literals;
    const auto so_far = waited();
    if (so_far < 50us) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::min<base::Clock::duration>(so_far / 8, 1ms));
    }
  }

 private:
  const base::Clock::time_point since_ = base::Clock::now();
};

/// The error of a wait for a device that took too long. `which` names the limit.
inline Error gpu_timeout(int ordinal, std::chrono::milliseconds limit,
                         std::string_view which = "key_timeout, TUTTI_TIMEOUT_SECONDS") {
  return {ErrorCode::timeout,
          fmt::format("waited {} for gpu({}), which has not finished the work in its streams; "
                      "look for a kernel of the program that hangs (the limit is {})",
                      base::seconds_text(limit), ordinal, which)};
}

}  // namespace tutti
