#include "collective/device_queue.h"

namespace tutti::collective {

DeviceQueue::Mark DeviceQueue::mark() {
  under_way_.push_back(events_.take());
  under_way_.back()->record(stream_.handle());
  return ++marked_;
}

bool DeviceQueue::is_over(Mark mark) {
  while (over_ < mark && under_way_.front()->is_done()) {
    under_way_.pop_front();
    ++over_;
  }
  return over_ >= mark;
}

void DeviceQueue::follow(const DeviceQueue& before) const {
  const cuda::EventPool::Pooled event = events_.take();
  event->record(before.stream_.handle());
  stream_.wait_for(*event);
}

}  // namespace tutti::collective
