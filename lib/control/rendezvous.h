#pragma once
#include <memory>
#include <vector>

#include "control/control_settings.h"
#include "control/node_channel.h"
#include "net/handshake.h"
#include "net/heartbeat.h"
#include "topology/topology.h"

namespace tutti::control {

/// What the ranks know and hold once they have found each other.
struct Company {
  topology::Topology topology;
  net::Heartbeat heartbeat;
  std::unique_ptr<NodeChannel> node;
  /// Rank 0: the leaders of all other nodes. Another leader: rank 0. Else none.
  std::vector<net::ProvenPeer> links;
  /// The memory file of the node's control segment, its collector's eventfd, and by local index
  /// what is readable once a rank's process has ended; the own one may be what the others watch.
  base::Fd segment;
  base::Fd collector;
  std::vector<base::Fd> processes;
};

/// Collective over all ranks. Finds who shares a node, connects the leaders to rank 0 (no TCP port
/// is opened when there is one node), and hands the first descriptors around. What fails on one
/// rank throws on all, the cause named.
Company find_company(int rank, int size, const AllGather& gather, const ControlSettings& settings);

}  // namespace tutti::control
