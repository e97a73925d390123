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

/// Whether lines go to a taker of the program's (`tutti::set_log_taker`), which may keep them.
bool has_log_taker();

/// Puts "[rank N]" in front of every line from now on.
void set_log_rank(int rank);

}  // namespace tutti::base
