#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/printable.h"

namespace tutti::base {
namespace {

/// Writes an event's text as one line, whatever keys, paths and peers put into it.
class OneLine : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& event, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    const std::string line = printable({event.payload.data(), event.payload.size()});
    to.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<OneLine>();
  }
};

/// `source`: the name of this process in every line.
std::unique_ptr<spdlog::formatter> line_format(const std::string& source) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<OneLine>('*');
  format->set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%e {} %l: %*", source));
  return format;
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger =
      std::make_shared<spdlog::logger>("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::warn);
  logger->set_formatter(line_format("tutti"));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

spdlog::logger& log() {
  // Never destroyed: exit handlers may log.
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
  log().set_formatter(line_format(fmt::format("tutti[rank {}]", rank)));
}

}  // namespace tutti::base
