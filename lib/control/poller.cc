#include "control/poller.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/failure.h"

namespace tutti::control {

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw base::system_failure("make an epoll descriptor");
}

void Poller::add(const base::Fd& fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    throw base::system_failure("watch a descriptor");
  }
}

void Poller::want_writing(const base::Fd& fd, std::uint64_t id, bool wanted) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (wanted) event.events |= EPOLLOUT;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd.get(), &event) != 0) {
    throw base::system_failure("watch a descriptor");
  }
}

void Poller::remove(const base::Fd& fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

const std::vector<std::uint64_t>& Poller::wait(base::Clock::time_point deadline) {
  std::array<epoll_event, 64> events;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::Clock::now());
  const auto limit = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), limit);
  if (count < 0 && errno != EINTR) throw base::system_failure("wait in epoll");
  ready_.clear();
  for (int i = 0; i < count; ++i) ready_.push_back(events[static_cast<std::size_t>(i)].data.u64);
  return ready_;
}

}  // namespace tutti::control
