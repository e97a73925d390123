#include "control/node_channel.h"

#include <fmt/format.h>

#include <utility>

#include "net/sockets.h"

namespace tutti::control {

NodeChannel::NodeChannel(std::vector<int> ranks, int local_index, std::vector<base::Fd> sockets)
    : ranks_(std::move(ranks)),
      me_(static_cast<std::size_t>(local_index)),
      sockets_(std::move(sockets)) {}

std::string NodeChannel::name(std::size_t local_index) const {
  return fmt::format("rank {} (to rank {}, on the same node)", ranks_[local_index], ranks_[me_]);
}

void NodeChannel::send(std::size_t to, const base::Fd& file, const base::Patience& patience) {
  net::send_descriptor(sockets_[to], file, name(to), patience);
}

base::Fd NodeChannel::receive(std::size_t from, const base::Patience& patience) {
  return net::receive_descriptor(sockets_[from], name(from), patience);
}

std::vector<base::Fd> NodeChannel::exchange(const base::Fd& mine, const base::Patience& patience) {
  std::vector<base::Fd> all(ranks_.size());
  if (me_ != 0) {
    send(0, mine, patience);
    for (base::Fd& one : all) one = receive(0, patience);
    return all;
  }
  all[0] = mine.duplicate();
  for (std::size_t i = 1; i < all.size(); ++i) all[i] = receive(i, patience);
  for (std::size_t i = 1; i < all.size(); ++i) {
    for (const base::Fd& one : all) send(i, one, patience);
  }
  return all;
}

base::Fd NodeChannel::from_leader(const base::Fd& mine, const base::Patience& patience) {
  if (me_ != 0) return receive(0, patience);
  for (std::size_t i = 1; i < ranks_.size(); ++i) send(i, mine, patience);
  return mine.duplicate();
}

}  // namespace tutti::control
