#pragma once
#include <memory>
#include <vector>

#include "control/control_settings.h"
#include "control/node_channel.h"
#include "net/handshake.h"
#include "net/heartbeat.h"
#include "topology/topology.h"

namespace tutti::control {

/// The knowledge and the descriptors that a rank has once the ranks have found each other.
struct Company {
  topology::Topology topology;
  net::Heartbeat heartbeat;
  std::unique_ptr<NodeChannel> node;
  /// On rank 0: the leaders of all other nodes. On another leader: rank 0. On other ranks: none.
  std::vector<net::ProvenPeer> links;
  /// The memory file of the node's control segment, its collector's eventfd, and by local index
  /// what is readable once a rank's process has ended; the own one may be what the others watch.
  base::Fd segment;
  base::Fd collector;
  std::vector<base::Fd> processes;
};

/// Collective over all ranks. Finds out which ranks share a node, connects the leaders to rank 0
/// (with one node it opens no TCP port), and passes the first descriptors around. If it fails on
/// one rank, it throws on all, and the error names the cause.
Company find_company(int rank, int size, const AllGather& gather, const ControlSettings& settings);

}  // namespace tutti::control
