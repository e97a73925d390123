#pragma once
#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/fd.h"

namespace tutti::net {

/// epoll with checked calls. Descriptors are watched for reading, level-triggered. `token` comes
/// back with each event.
class Poller {
 public:
  Poller();

  /// Readable while an event waits: a poller may be watched by another.
  const base::Fd& descriptor() const { return epoll_; }
  void add(const base::Fd& fd, std::uint64_t token);
  /// From now on watches the descriptor for reading, for writing or for both. The end of the other
  /// side is reported in any case.
  void watch(const base::Fd& fd, std::uint64_t token, bool reading, bool writing);
  /// Call it before closing a descriptor: a copy in a forked child would keep its events coming.
  void remove(const base::Fd& fd) noexcept;
  /// Sleeps until something is ready or the deadline has passed (no deadline: as long as it takes).
  /// The events are valid until the next call.
  std::span<const epoll_event> wait(std::optional<base::Clock::time_point> deadline);

 private:
  void control(int operation, const base::Fd& fd, std::uint64_t token, std::uint32_t events);

  base::Fd epoll_;
  std::array<epoll_event, 64> events_{};
};

/// Milliseconds until `deadline` for poll and epoll: rounded up, so that the deadline has passed
/// when the sleep is over; -1 for none.
int milliseconds_until(std::optional<base::Clock::time_point> deadline);

}  // namespace tutti::net
