#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace tutti::base {

/// Watches a call that nothing can interrupt, such as MPI_Init, from a thread of its own,
/// tutti-watch. Construct it before the call, and destroy it after the call.
class Watchdog {
 public:
  struct Finding {
    std::string line;
    bool hopeless = false;
  };
  /// Called on tutti-watch ten times a second, with the time since construction. Returns a finding
  /// if something is wrong.
  using Look = std::function<std::optional<Finding>(std::chrono::milliseconds waited)>;

  /// Logs each finding. If a finding is hopeless, the process flushes its streams and ends with
  /// `status`. If `look` is empty, nothing is watched.
  Watchdog(Look look, int status);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run() TUTTI_EXCLUDES(mutex_);
  void look_once() const;

  const Look look_;
  const int status_;
  const Clock::time_point start_ = Clock::now();
  Mutex mutex_{5};
  CondVar ended_;
  bool over_ TUTTI_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

}  // namespace tutti::base
