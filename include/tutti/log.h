#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, critical };

/// A line that the library logs, such as a stall report.
struct LogLine {
  LogLevel level = LogLevel::info;
  int rank = -1;  ///< this process's rank in the store that it created last; -1 if there is none
  std::string_view text{};  ///< one line, fit for a terminal; valid during the call
};

/// Sends the library's log lines to a program that has a log of its own. The library passes each
/// line that `Options::log_level` lets through to `take` first, and writes it to stderr only if
/// `take` returns false. With an empty `take` the library writes all lines to stderr again.
///
/// The library calls `take` for one line at a time, on any thread: also on its own threads, and on
/// threads that hold its locks. So `take` must be quick. It must not call the library, wait for a
/// thread that calls the library, or throw.
///
/// Does not block. Thread-safe. When `set_log_taker` returns, the library no longer calls the
/// function that was set before. A forked child starts without a taker.
TUTTI_EXPORT void set_log_taker(std::function<bool(const LogLine&)> take);

}  // namespace tutti
