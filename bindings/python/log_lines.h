#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "tutti/log.h"

namespace tutti::python {

/// Lines of the library's log on their way to Python's `logging`. The library's threads must not
/// wait for the GIL, so they leave them here, and `tutti._logs` has a thread that hands them over.
class LogLines {
 public:
  struct Line {
    LogLevel level;
    int rank;
    std::string text;
    std::chrono::steady_clock::time_point at;
    bool is_shown;  ///< on stderr already
  };

  /// Whether the library's log leaves this line to `logging`. Errors are written to stderr all the
  /// same: the process may end by them, and the launcher reads them there.
  bool offer(const LogLine& line);
  /// For the thread: blocks until there is a line. False: all is done.
  bool wait();
  /// Nothing: it was written to stderr meanwhile.
  std::optional<Line> take();
  /// The thread hands over the lines that are there, and ends. Later lines go to stderr.
  void close();
  /// To stderr, with what nobody has taken.
  void show_all();

 private:
  void show_late(std::chrono::steady_clock::time_point now);

  std::mutex mutex_;  ///< level 7
  std::condition_variable changed_;
  std::deque<Line> lines_;  ///< guarded by mutex_, as is closed_
  bool closed_ = false;
};

void bind_log_lines(nanobind::module_& module);

}  // namespace tutti::python
