#include "net/epoll_bell.h"

#include <sys/eventfd.h>

#include "base/failure.h"

namespace tutti::net {

base::Fd EpollBell::make_descriptor() {
  base::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw base::system_failure("create an eventfd");
  return event;
}

void EpollBell::ring() noexcept {
  // Before the call the caller has published its news with a sequentially consistent store. So
  // either this load sees the bell armed, or the listener's look for work after `arm` sees the
  // news.
  if (asleep_->load(std::memory_order_seq_cst) == 0) return;
  if (asleep_->exchange(0, std::memory_order_seq_cst) != 0) ::eventfd_write(event_.get(), 1);
}

void EpollBell::silence() {
  eventfd_t rings = 0;
  ::eventfd_read(event_.get(), &rings);
}

}  // namespace tutti::net
