#pragma once
#include <memory>
#include <vector>

#include "control/control_settings.h"
#include "control/node_channel.h"
#include "net/handshake.h"
#include "net/heartbeat.h"
#include "topology/topology.h"

namespace tutti::control {

/// The knowledge and the descriptors of a rank once the ranks have found each other.
struct Company {
  topology::Topology topology;
  net::Heartbeat heartbeat;
  std::unique_ptr<NodeChannel> node;
  /// The connections between nodes. Rank 0 has those to the leaders of all other nodes, another
  /// leader has the one to rank 0, and other ranks have none.
  std::vector<net::ProvenPeer> links;
  /// The memory file of the node's control segment; the eventfd of the node's collector; and by
  /// local index a descriptor that becomes readable when the rank's process has ended. The
  /// descriptor at this rank's own index may be the one that the others watch.
  base::Fd segment;
  base::Fd collector;
  std::vector<base::Fd> processes;
};

/// Collective over all ranks. Finds out which ranks share a node, connects the leaders to rank 0,
/// and passes the first descriptors around. If there is only one node, opens no TCP port. If it
/// fails on one rank, it throws on all, and the error names the cause.
Company find_company(int rank, int size, const AllGather& gather, const ControlSettings& settings);

}  // namespace tutti::control
