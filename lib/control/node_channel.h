#pragma once
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"
#include "topology/topology.h"

namespace tutti::control {

/// Passes descriptors between the ranks of one node, through its leader. Calls are collective over
/// the node and come in the same order on all ranks. They throw `timeout`, `peer_lost`, `internal`
/// and what `patience` throws.
class NodeChannel {
 public:
  /// `ranks`: of the node. `sockets`, by local index: the leader has one to each other rank, the
  /// others have one to the leader (index 0). They are Unix sockets whose two ends have proved
  /// their identity.
  NodeChannel(std::vector<int> ranks, int local_index, std::vector<base::Fd> sockets);

  /// Gathers the descriptor of every rank, by local index. All of them belong to the caller, also
  /// the copy of its own.
  std::vector<base::Fd> exchange(const base::Fd& mine, const base::Patience& patience);
  /// Gives the leader's descriptor to every rank; the `mine` of the others is ignored.
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
