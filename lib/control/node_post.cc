#include "control/node_post.h"

namespace tutti::control {

NodePost::NodePost(const Segment& segment) : segment_(segment) {
  for (int i = 0; i < segment.local_size(); ++i) {
    boxes_.push_back({net::MailReceiver(segment.up(i)), net::MailSender(segment.down(i))});
  }
}

base::Doorbell& NodePost::bell(std::size_t local_index) const {
  return segment_.slot(static_cast<int>(local_index)).bell;
}

void NodePost::collect(const std::function<void(int, net::ConstBytes)>& take) {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (boxes_[i].up.take_in()) bell(i).ring();
    while (boxes_[i].up.next(message_)) take(static_cast<int>(i), message_);
  }
}

void NodePost::deliver(int local_index, net::ConstBytes message) {
  const auto i = static_cast<std::size_t>(local_index);
  if (boxes_[i].down.send(message)) bell(i).ring();
}

void NodePost::flush() {
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (boxes_[i].down.flush()) bell(i).ring();
  }
}

void NodePost::note_closing(int rank) {
  segment_.closing(rank).store(1);
  for (std::size_t i = 0; i < boxes_.size(); ++i) bell(i).ring();
}

std::vector<int> NodePost::take_closing(const std::vector<int>& ranks) {
  std::vector<int> found;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (boxes_[i].closing || segment_.closing(ranks[i]).load() == 0) continue;
    boxes_[i].closing = true;
    found.push_back(ranks[i]);
  }
  return found;
}

std::vector<int> NodePost::take_departed() {
  std::vector<int> found;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const int local_index = static_cast<int>(i);
    if (boxes_[i].departed || segment_.slot(local_index).departed.load() == 0) continue;
    boxes_[i].departed = true;
    found.push_back(local_index);
  }
  return found;
}

}  // namespace tutti::control
