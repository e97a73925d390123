#include "base/wait_limits.h"

#include <fmt/format.h>

#include <chrono>

namespace tutti::base {

std::string seconds_text(Clock::duration time) {
  // Options count milliseconds. Smaller differences come from arithmetic.
  const auto whole = std::chrono::round<std::chrono::milliseconds>(time);
  return fmt::format("{} s", std::chrono::duration<double>(whole).count());
}

std::string key_limit(Clock::duration limit) {
  return seconds_text(limit) + " (key_timeout, TUTTI_TIMEOUT_SECONDS)";
}

std::string create_limit(Clock::duration limit) {
  return seconds_text(limit) + " (create_timeout, TUTTI_CREATE_SECONDS)";
}

std::string heartbeat_limit(Clock::duration limit) {
  return seconds_text(limit) + " (heartbeat_timeout, TUTTI_HEARTBEAT_SECONDS)";
}

}  // namespace tutti::base
