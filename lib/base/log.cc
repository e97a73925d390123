#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/printable.h"
#include "tutti/log.h"

namespace tutti::base {
namespace {

static_assert(static_cast<int>(LogLevel::critical) == SPDLOG_LEVEL_CRITICAL);

/// Writes an event's text as one line, whatever keys, paths and addresses it contains.
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

/// `source` names this process in every line.
std::unique_ptr<spdlog::formatter> line_format(const std::string& source) {
  auto format = std::make_unique<spdlog::pattern_formatter>();
  format->add_flag<OneLine>('*');
  format->set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%e {} %l: %*", source));
  return format;
}

/// The place to which events go: the program's own log if it takes them, and otherwise stderr.
class Outlet : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& event) override {
    if (!is_taken(event)) stderr_.log(event);
  }
  void flush() override { stderr_.flush(); }
  void set_pattern(const std::string& pattern) override { stderr_.set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> format) override {
    stderr_.set_formatter(std::move(format));
  }

  void set_rank(int rank) { rank_ = rank; }
  void set_taker(std::function<bool(const LogLine&)> take) TUTTI_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    take_ = std::move(take);
    taken_in_ = take_ ? ::getpid() : 0;
  }
  bool has_taker() const { return taken_in_ == ::getpid(); }

 private:
  /// In a forked child a thread that does not exist there may hold the mutex.
  bool is_taken(const spdlog::details::log_msg& event) TUTTI_EXCLUDES(mutex_) {
    if (!has_taker()) return false;
    const std::string text = printable({event.payload.data(), event.payload.size()});
    const Lock lock(mutex_);
    return take_ && take_({static_cast<LogLevel>(event.level), rank_, text});
  }

  spdlog::sinks::stderr_sink_mt stderr_;
  std::atomic<int> rank_{-1};
  std::atomic<pid_t> taken_in_{0};
  Mutex mutex_{6};
  std::function<bool(const LogLine&)> take_ TUTTI_GUARDED_BY(mutex_);
};

const std::shared_ptr<Outlet>& outlet() {
  // The object is never destroyed, because exit handlers may log.
  static auto* const only = new auto(std::make_shared<Outlet>());
  return *only;
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = std::make_shared<spdlog::logger>("tutti", outlet());
  logger->set_level(spdlog::level::warn);
  logger->set_formatter(line_format("tutti"));
  logger->flush_on(spdlog::level::trace);
  return logger;
}

}  // namespace

spdlog::logger& log() {
  // The object is never destroyed, because exit handlers may log.
  static auto* const logger = new std::shared_ptr<spdlog::logger>(make_logger());
  return **logger;
}

std::span<const std::string_view> log_levels() {
  static constexpr std::string_view known[] = {"off",  "critical", "error", "warning",
                                               "info", "debug",    "trace"};
  return known;
}

bool has_log_taker() {
  return outlet()->has_taker();
}

bool set_log_level(std::string_view level) {
  const auto known = log_levels();
  if (std::find(known.begin(), known.end(), level) == known.end()) return false;
  log().set_level(spdlog::level::from_str(std::string(level)));
  return true;
}

void set_log_rank(int rank) {
  log().set_formatter(line_format(fmt::format("tutti[rank {}]", rank)));
  outlet()->set_rank(rank);
}

}  // namespace tutti::base

void tutti::set_log_taker(std::function<bool(const LogLine&)> take) {
  base::outlet()->set_taker(std::move(take));
}
