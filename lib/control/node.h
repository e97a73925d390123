#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "control/socket.h"
#include "topology/topology.h"

namespace tutti::control {

/// Collective over all ranks: everyone's text, by rank.
using AllGather = std::function<std::vector<std::string>(std::string mine)>;

/// The ranks of one node, connected to their leader by sockets that carry descriptors. Two ranks
/// are on one node when a descriptor can be passed between them, not when host names match.
class Node {
 public:
  /// Collective over all ranks, blocking. `name` is a prefix that only this job uses; ranks with
  /// different prefixes never find each other.
  Node(int rank, const std::string& name, const AllGather& all_gather, Deadline deadline);

  const topology::Topology& topology() const { return topology_; }
  /// Collective over the node: everyone's descriptor, by local index. Blocking until `deadline`.
  std::vector<base::Fd> share(const base::Fd& mine, Deadline deadline);

 private:
  topology::Topology topology_;
  base::Fd to_leader_;                ///< of a rank that leads no node
  std::vector<base::Fd> to_members_;  ///< of a leader, by local index; none at its own
};

}  // namespace tutti::control
