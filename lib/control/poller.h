#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"

namespace tutti::control {

/// epoll over a few descriptors, level-triggered. One thread owns it.
class Poller {
 public:
  Poller();
  /// `id` comes back when the descriptor can be read, or, if asked for, written.
  void add(const base::Fd& fd, std::uint64_t id);
  void want_writing(const base::Fd& fd, std::uint64_t id, bool wanted);
  void remove(const base::Fd& fd);
  /// Sleeps until something is ready or the deadline; the ids that are ready.
  const std::vector<std::uint64_t>& wait(base::Clock::time_point deadline);

 private:
  base::Fd epoll_;
  std::vector<std::uint64_t> ready_;
};

}  // namespace tutti::control
