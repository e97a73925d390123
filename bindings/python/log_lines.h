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
/// wait for the GIL, so they leave lines here. `tutti._logs` has a thread that passes them on.
class LogLines {
 public:
  struct Line {
    LogLevel level;
    int rank;
    std::string text;
    std::chrono::steady_clock::time_point at;
    bool is_shown;  ///< whether the line is already on stderr
  };

  /// Takes a line. Returns whether `logging` gets it. Errors also go to stderr, because the process
  /// may end by them, and the launcher reads them there.
  bool offer(const LogLine& line);
  /// For the thread: blocks until there is a line. Returns false when everything is done.
  bool wait();
  /// Returns nothing if the line has gone to stderr meanwhile.
  std::optional<Line> take();
  /// The thread passes on the lines that are there, and then ends. Later lines go to stderr.
  void close();
  /// Writes all lines that nobody has taken to stderr.
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
