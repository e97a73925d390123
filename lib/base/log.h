#pragma once
#include <spdlog/logger.h>

#include <span>
#include <string_view>

namespace tutti::base {

/// The process's logger, to stderr, one line an event, each with the rank once that is known: what
/// is not printable in an event's text is escaped. Thread-safe.
spdlog::logger& log();

/// "off", "critical", "error", "warning", "info", "debug", "trace".
std::span<const std::string_view> log_levels();
/// False: no such level.
bool set_log_level(std::string_view level);

/// Puts "[rank N]" in front of every line from now on.
void set_log_rank(int rank);

}  // namespace tutti::base
