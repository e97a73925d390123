#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

enum class LogLevel : std::uint8_t { trace, debug, info, warning, error, critical };

/// The library logs such lines, a stall report for instance.
struct LogLine {
  LogLevel level = LogLevel::info;
  int rank = -1;            ///< of the store that this process has created last; -1: there is none
  std::string_view text{};  ///< one line, fit for a terminal; valid during the call
};

/// For a program with a log of its own: each line that `Options::log_level` lets through goes to
/// `take` first, and to stderr only if that returns false. An empty `take` ends this.
///
/// `take` is called on any thread, the library's own and those that hold its locks among them, for
/// one line at a time. It must be quick: it may neither call the library, nor wait for what does,
/// nor throw. When `set_log_taker` returns, the function before is not called any more. A forked
/// child has none. Does not block. Thread-safe.
TUTTI_EXPORT void set_log_taker(std::function<bool(const LogLine&)> take);

}  // namespace tutti
