#pragma once
#include <spdlog/logger.h>

#include <span>
#include <string_view>

namespace tutti::base {

/// The process's logger. It writes to stderr, one line for each event, with the rank once that is
/// known. It escapes unprintable characters of an event's text. Thread-safe.
spdlog::logger& log();

/// The names that `set_log_level` takes: "off", "critical", "error", "warning", "info", "debug",
/// "trace".
std::span<const std::string_view> log_levels();
/// Returns false if there is no such level.
bool set_log_level(std::string_view level);

/// Puts "[rank N]" in front of every line from now on.
void set_log_rank(int rank);

}  // namespace tutti::base
