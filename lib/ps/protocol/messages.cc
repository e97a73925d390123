#include "ps/protocol/messages.h"

#include <fmt/format.h>

#include <array>

namespace tutti::ps {

void check_servers(const Placement& placement, int servers) {
  for (const int server : placement.places.servers) {
    if (server >= 0 && server < servers) continue;
    throw Error(ErrorCode::internal, fmt::format("the scheduler places key {} on server {}, of {}",
                                                 placement.key.describe(), server, servers));
  }
}

std::string_view name(Role role) {
  static constexpr std::array<std::string_view, 3> names{"scheduler", "server", "worker"};
  return names.at(static_cast<std::size_t>(role));
}

std::string_view name(Kind kind) {
  static constexpr std::array<std::string_view, 4> names{"init", "broadcast", "push", "pushpull"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string_view name(Encoding encoding) {
  static constexpr std::array<std::string_view, 5> names{"none", "fp16", "bf16", "2bit", "1bit"};
  return names.at(static_cast<std::size_t>(encoding));
}

}  // namespace tutti::ps
