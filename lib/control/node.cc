#include "control/node.h"

#include <fmt/format.h>

#include "base/failure.h"

namespace tutti::control {
namespace {

std::string socket_name(const std::string& prefix, int rank) {
  return fmt::format("{}-{}", prefix, rank);
}

std::string peer_name(int rank) {
  return fmt::format("rank {} on this node", rank);
}

}  // namespace

Node::Node(int rank, const std::string& name, const AllGather& all_gather,
           Deadline deadline) {
  const base::Fd listener = listen_abstract(socket_name(name, rank));
  all_gather("listening");
  // The lowest rank that can be reached leads this node.
  int leader = rank;
  for (int other = 0; other < rank && leader == rank; ++other) {
    to_leader_ = connect_abstract(socket_name(name, other));
    if (to_leader_) leader = other;
  }
  std::vector<int> leaders;
  for (const std::string& said : all_gather(std::to_string(leader))) {
    leaders.push_back(std::stoi(said));
  }
  topology_ = topology::make_topology(rank, leaders);
  if (to_leader_) {
    const auto local = static_cast<std::int32_t>(topology_.local_index());
    send_all(to_leader_, std::as_bytes(std::span(&local, 1)), deadline, peer_name(leader));
    return;
  }
  to_members_.resize(static_cast<std::size_t>(topology_.local_size()));
  for (int i = 1; i < topology_.local_size(); ++i) {
    base::Fd member = accept_from(listener, deadline, "the other ranks of this node");
    std::int32_t local = 0;
    receive_all(member, std::as_writable_bytes(std::span(&local, 1)), deadline,
                "the other ranks of this node");
    base::check(local > 0 && local < topology_.local_size(), "a rank of the node says who it is");
    to_members_[static_cast<std::size_t>(local)] = std::move(member);
  }
}

std::vector<base::Fd> Node::share(const base::Fd& mine, Deadline deadline) {
  std::vector<base::Fd> all;
  const auto& ranks = topology_.local_ranks();
  if (to_leader_) {
    send_descriptor(to_leader_, mine);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      all.push_back(receive_descriptor(to_leader_, deadline, peer_name(ranks.front())));
    }
    return all;
  }
  all.push_back(mine.duplicate());
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    all.push_back(receive_descriptor(to_members_[i], deadline, peer_name(ranks[i])));
  }
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    for (const base::Fd& each : all) send_descriptor(to_members_[i], each);
  }
  return all;
}

}  // namespace tutti::control
