#include "ps/messages.h"

#include <array>

namespace tutti::ps {

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
