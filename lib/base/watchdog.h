#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace tutti::base {

/// Looks on from a thread of its own, tutti-watch, while a call goes on that nothing can interrupt.
/// It lives around that call.
class Watchdog {
 public:
  struct Finding {
    std::string line;
    bool hopeless = false;
  };
  /// Called on that thread ten times a second, with the time since the watch began.
  using Look = std::function<std::optional<Finding>(std::chrono::milliseconds waited)>;

  /// Logs what is found; when that is hopeless the process flushes its streams and ends with
  /// `status`. Without `look` nothing is watched.
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
  Mutex mutex_;
  CondVar ended_;
  bool over_ TUTTI_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

}  // namespace tutti::base
