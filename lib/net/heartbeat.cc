#include "net/heartbeat.h"

#include <algorithm>

#include "base/wait_limits.h"

namespace tutti::net {

Heartbeat Heartbeat::from(std::chrono::milliseconds timeout,
                          std::chrono::milliseconds shortest_timeout) {
  using namespace std::chrono_literals;
  const auto beat = std::clamp<std::chrono::milliseconds>(shortest_timeout / 4, 10ms, 1s);
  const auto beats = (timeout + beat - 1ms) / beat;
  return {beat, static_cast<int>(std::max<decltype(beats)>(beats, 2)),
          base::heartbeat_limit(timeout)};
}

}  // namespace tutti::net
