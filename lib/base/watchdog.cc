#include "base/watchdog.h"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <utility>

#include "base/log.h"

namespace tutti::base {
namespace {

constexpr auto beat = std::chrono::milliseconds(100);

}  // namespace

Watchdog::Watchdog(Look look, int status) : look_(std::move(look)), status_(status) {
  if (look_) thread_ = NamedThread("tutti-watch", [this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const Lock lock(mutex_);
    over_ = true;
    ended_.notify_all();
  }
  thread_.join();
}

void Watchdog::run() {
  Lock lock(mutex_);
  while (!over_) {
    if (ended_.wait_until(lock, Clock::now() + beat) || over_) continue;
    lock.unlock();
    look_once();
    lock.lock();
  }
}

void Watchdog::look_once() const {
  std::optional<Finding> found;
  try {
    found = look_(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_));
  } catch (const std::exception& failure) {
    log().debug("a watchdog could not look: {}", failure.what());
  }
  if (!found) return;
  if (!found->hopeless) {
    log().warn("{}", found->line);
    return;
  }
  log().critical("{}", found->line);
  std::fflush(nullptr);
  ::_exit(status_);
}

}  // namespace tutti::base
