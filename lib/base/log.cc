#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>
#include <string>

namespace tutti::base {
namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger =
      std::make_shared<spdlog::logger>("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::warn);
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e tutti %l: %v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

spdlog::logger& log() {
  // Never destroyed: what runs at the end of the process may log.
  static auto* const logger = new std::shared_ptr<spdlog::logger>(make_logger());
  return **logger;
}

std::span<const std::string_view> log_levels() {
  static constexpr std::string_view known[] = {"off",  "critical", "error", "warning",
                                               "info", "debug",    "trace"};
  return known;
}

bool set_log_level(std::string_view level) {
  const auto known = log_levels();
  if (std::find(known.begin(), known.end(), level) == known.end()) return false;
  log().set_level(spdlog::level::from_str(std::string(level)));
  return true;
}

void set_log_rank(int rank) {
  log().set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%e tutti[rank {}] %l: %v", rank));
}

}  // namespace tutti::base
