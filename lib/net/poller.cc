#include "net/poller.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/failure.h"

namespace tutti::net {

int milliseconds_until(std::optional<base::Clock::time_point> deadline) {
  if (!deadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*deadline - base::Clock::now()).count();
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left, 0, 3'600'000));
}

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw base::system_failure("create an epoll descriptor");
}

void Poller::control(int operation, const base::Fd& fd, std::uint64_t token, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), operation, fd.get(), &event) != 0) {
    throw base::system_failure("change what epoll watches");
  }
}

void Poller::add(const base::Fd& fd, std::uint64_t token) {
  control(EPOLL_CTL_ADD, fd, token, EPOLLIN);
}

void Poller::watch(const base::Fd& fd, std::uint64_t token, bool reading, bool writing) {
  const std::uint32_t events = (reading ? EPOLLIN : 0U) | (writing ? EPOLLOUT : 0U);
  control(EPOLL_CTL_MOD, fd, token, events);
}

void Poller::remove(const base::Fd& fd) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
}

std::span<const epoll_event> Poller::wait(std::optional<base::Clock::time_point> deadline) {
  const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                 milliseconds_until(deadline));
  // EINTR comes when the process was stopped and continued. The caller polls again anyway.
  if (count < 0 && errno != EINTR) throw base::system_failure("wait with epoll");
  return {events_.data(), static_cast<std::size_t>(std::max(count, 0))};
}

}  // namespace tutti::net
