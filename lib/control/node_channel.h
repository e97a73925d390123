#pragma once
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/patience.h"
#include "topology/topology.h"

namespace tutti::control {

/// Passes descriptors between the ranks of one node, through its leader. Its calls are collective
/// over the node and in the same order everywhere. Throws `timeout`, `peer_lost`, `internal`,
/// and what `patience` throws.
class NodeChannel {
 public:
  /// `sockets`, by local index: the leader's to each other rank, a member's to the leader (index 0)
  /// alone. Unix sockets whose ends have proved who they are. `ranks` are the node's.
  NodeChannel(std::vector<int> ranks, int local_index, std::vector<base::Fd> sockets);

  /// Everyone's descriptor, by local index; what comes back is the caller's own, even at its index.
  std::vector<base::Fd> exchange(const base::Fd& mine, const base::Patience& patience);
  /// The leader's descriptor, at every rank; the others' `mine` is of no account.
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
