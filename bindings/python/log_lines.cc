#include "python/log_lines.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "python/gil.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;
using std::chrono::steady_clock;

/// As long as one thread computes in C and keeps the GIL, no thread can pass lines to Python. These
/// lines may tell why the job hangs, so after this time they go to stderr.
constexpr std::chrono::seconds most_late{1};

void show(const LogLines::Line& line) {
  constexpr std::array<std::string_view, 6> names{"trace",   "debug", "info",
                                                  "warning", "error", "critical"};
  if (line.is_shown) return;
  const std::string who = line.rank < 0 ? "tutti" : fmt::format("tutti[rank {}]", line.rank);
  fmt::print(stderr, "{} {}: {}\n", who, names.at(static_cast<std::size_t>(line.level)), line.text);
}

/// Returns (level, rank, text), or None.
nb::object next_line(LogLines& lines) {
  bool more = false;
  {
    const WithoutGil unlocked;
    more = lines.wait();
  }
  if (!more) return nb::none();
  const auto line = lines.take();
  if (!line) return nb::make_tuple();
  return nb::make_tuple(static_cast<int>(line->level), line->rank, line->text);
}

/// The object belongs to the process that asks. A forked child makes its own.
LogLines& make_lines() {
  // The object is never destroyed, because the library's threads use it until the process ends.
  auto* const lines = new LogLines;
  set_log_taker([lines](const LogLine& line) { return lines->offer(line); });
  return *lines;
}

}  // namespace

bool LogLines::offer(const LogLine& line) {
  const auto now = steady_clock::now();
  const bool is_shown = line.level >= LogLevel::error;
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  show_late(now);
  lines_.push_back({line.level, line.rank, std::string(line.text), now, is_shown});
  changed_.notify_one();
  return !is_shown;
}

bool LogLines::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !lines_.empty(); });
  return !lines_.empty();
}

std::optional<LogLines::Line> LogLines::take() {
  const std::lock_guard lock(mutex_);
  if (lines_.empty()) return std::nullopt;
  Line line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

void LogLines::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

void LogLines::show_all() {
  const std::lock_guard lock(mutex_);
  show_late(steady_clock::time_point::max());
}

void LogLines::show_late(steady_clock::time_point now) {
  while (!lines_.empty() && lines_.front().at < now - most_late) {
    show(lines_.front());
    lines_.pop_front();
  }
}

void bind_log_lines(nb::module_& module) {
  nb::class_<LogLines>(module, "LogLines", "Lines of the library's log, for Python's logging.")
      .def("next", &next_line,
           "Waits for the next (level, rank, text): of C++'s levels, and -1 without a rank. Empty "
           "where another has taken it; None when they are closed.",
           nb::sig("def next(self) -> tuple[int, int, str] | tuple[()] | None"))
      .def("close", &LogLines::close, "The thread takes what is there; later lines go to stderr.")
      .def("show_all", &LogLines::show_all, "Writes to stderr what nobody has taken.");
  module.def("log_lines", &make_lines, nb::rv_policy::reference,
             "From now on this process's log goes there.");
}

}  // namespace tutti::python
