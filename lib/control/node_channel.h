#pragma once
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"
#include "topology/topology.h"

namespace tutti::control {

/// Passes descriptors between the ranks of one node, through its leader. The calls are collective
/// over the node, and come in the same order on all ranks. They throw `timeout`, `peer_lost`,
/// `internal`, and the errors that `patience` throws.
class NodeChannel {
 public:
  /// `ranks` are those of the node. `sockets` are ordered by local index: the leader has one to
  /// each other rank, and each other rank has one to the leader, at index 0. They are Unix sockets.
  /// The ranks at both ends have proved their identity.
  NodeChannel(std::vector<int> ranks, int local_index, std::vector<base::Fd> sockets);

  /// Gathers the descriptor of every rank, by local index. All of them belong to the caller, even
  /// the copy of its own.
  std::vector<base::Fd> exchange(const base::Fd& mine, const base::Patience& patience);
  /// Gives the leader's descriptor to every rank. Ignores the `mine` of the other ranks.
  base::Fd from_leader(const base::Fd& mine, const base::Patience& patience);

 private:
  void send(std::size_t to, const base::Fd& file, const base::Patience& patience);
  base::Fd receive(std::size_t from, const base::Patience& patience);
  std::string name(std::size_t local_index) const;

  std::vector<int> ranks_;
  std::size_t me_;
  std::vector<base::Fd> sockets_;
};

}  // namespace tutti::control
