#include "collective/node_broadcast.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/failure.h"

namespace tutti::collective {
namespace {

/// A chain takes as long as its first link needs for all messages, and n - 2 messages more. In a
/// tree the first stop sends all messages once for each level.
bool chain_is_shorter(std::size_t messages, const std::vector<int>& stops) {
  const std::size_t levels = std::bit_width(stops.size() - 1);
  return messages * (levels - 1) + 2 > stops.size();
}

}  // namespace

NodeBroadcast::NodeBroadcast(const mpi::Communicator& communicator, int stream)
    : requests_(communicator), tag_(stream) {}

void NodeBroadcast::start(const std::vector<int>& stops, std::size_t me, bool alone,
                          std::span<std::byte> chunk) {
  base::check(here_ == messages() && sends_.empty(),
              "a broadcast is started when the one before is done");
  chunk_ = chunk;
  here_ = 0;
  receives_.clear();
  const auto parent = choose_children(stops, me, !alone || chain_is_shorter(messages(), stops));
  if (me == 0) {
    while (here_ < messages()) pass_on();
    return;
  }
  for (std::size_t i = 0; i < messages(); ++i) {
    receives_.push_back(requests_.receive(stops[parent], tag_, message(i)));
  }
}

/// Sets the children, and returns the parent.
std::size_t NodeBroadcast::choose_children(const std::vector<int>& stops, std::size_t me,
                                           bool chain) {
  children_.clear();
  if (chain) {
    if (me + 1 < stops.size()) children_.push_back(stops[me + 1]);
    return me - 1;
  }
  // In the binomial tree the number of the parent lacks the highest bit of `me`. Those of the
  // children have one higher bit in addition.
  std::size_t bit = 1;
  while (bit <= me) bit *= 2;
  const std::size_t parent = me - bit / 2;
  for (; me + bit < stops.size(); bit *= 2) children_.push_back(stops[me + bit]);
  return parent;
}

std::size_t NodeBroadcast::messages() const {
  return (chunk_.size() + mpi::message_bytes - 1) / mpi::message_bytes;
}

std::span<std::byte> NodeBroadcast::message(std::size_t index) const {
  const std::size_t begin = index * mpi::message_bytes;
  return chunk_.subspan(begin, std::min(mpi::message_bytes, chunk_.size() - begin));
}

void NodeBroadcast::pass_on() {
  const std::span<std::byte> next = message(here_++);
  for (const int child : children_) {
    sends_.push_back(requests_.send(child, tag_, next));
    bytes_sent_ += next.size();
  }
}

bool NodeBroadcast::poll_arrived() {
  if (here_ == messages()) return true;
  requests_.progress();
  while (here_ < messages() && requests_.take_finished(receives_[here_])) pass_on();
  return here_ == messages();
}

bool NodeBroadcast::poll_sent() {
  if (!poll_arrived()) return false;
  if (sends_.empty()) return true;
  requests_.progress();
  std::erase_if(sends_, [&](mpi::Requests::Id id) { return requests_.take_finished(id); });
  return sends_.empty();
}

std::string NodeBroadcast::describe() const {
  return fmt::format("broadcast between nodes of {} bytes: {}", chunk_.size(),
                     requests_.describe());
}

}  // namespace tutti::collective
