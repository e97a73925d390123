#pragma once
#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/fd.h"

namespace tutti::net {

/// epoll with checked calls. Descriptors are watched for reading, level-triggered. Each event
/// carries the `token` of its descriptor.
class Poller {
 public:
  Poller();

  /// Readable while an event waits. So one poller may watch another.
  const base::Fd& descriptor() const { return epoll_; }
  void add(const base::Fd& fd, std::uint64_t token);
  /// From now on watches the descriptor for reading, for writing or for both. It always reports
  /// when the other side has ended.
  void watch(const base::Fd& fd, std::uint64_t token, bool reading, bool writing);
  /// Call this before closing a descriptor: if a forked child had a copy, events would still come.
  void remove(const base::Fd& fd) noexcept;
  /// Sleeps until something is ready or the deadline has passed. Without a deadline it sleeps as
  /// long as it takes. The events are valid until the next call.
  std::span<const epoll_event> wait(std::optional<base::Clock::time_point> deadline);

 private:
  void control(int operation, const base::Fd& fd, std::uint64_t token, std::uint32_t events);

  base::Fd epoll_;
  std::array<epoll_event, 64> events_{};
};

/// The milliseconds until `deadline`, for poll and epoll. They are rounded up, so that the deadline
/// has passed when the sleep is over. -1 if there is no deadline.
int milliseconds_until(std::optional<base::Clock::time_point> deadline);

}  // namespace tutti::net
