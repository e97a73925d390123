#include "runtime/footprint.h"

#include <algorithm>
#include <vector>

#include "base/pages.h"
#include "collective/engine.h"
#include "collective/tuning.h"
#include "control/segment.h"
#include "shm/shared_cache.h"

namespace tutti::runtime {

std::size_t segment_share(std::size_t bytes, const topology::Topology& topology) {
  const auto ranks = static_cast<std::size_t>(topology.local_size());
  return (bytes + ranks - 1) / ranks;
}

/// An arena gets twice the machine's memory, because blocks that begin on huge pages leave gaps.
/// But all arenas of a node must fit into the address space: sixteen groups may take half of the
/// 128 TiB of a process.
std::size_t arena_bytes(std::size_t machine_bytes, int local_size, bool over_some_ranks) {
  const std::size_t room = std::size_t{over_some_ranks ? 4U : 32U} << 40;
  const std::size_t most = room / static_cast<std::size_t>(local_size);
  return std::min(2 * machine_bytes, most) / base::page_bytes() * base::page_bytes();
}

std::size_t most_buffer_bytes(const Options& options, int ranks_per_node, int nodes) {
  std::vector<int> leader_of(static_cast<std::size_t>(ranks_per_node) *
                             static_cast<std::size_t>(nodes));
  for (int rank = 0; int& leader : leader_of) leader = rank++ / ranks_per_node * ranks_per_node;
  const topology::Topology topology = topology::make_topology(0, leader_of);
  // Whether ranks share processors depends on how the job is started, so this takes the worse case.
  std::size_t most = 0;
  for (const int processors : {1, ranks_per_node}) {
    const auto tuning = collective::Tuning::choose(topology, options.slice_bytes,
                                                   {shm::shared_cache_bytes(), processors});
    most = std::max(most, segment_share(tuning.layout(topology).bytes(), topology) +
                              collective::Engine::most_buffer_bytes(topology, tuning));
  }
  return most + segment_share(control::Segment::bytes(ranks_per_node, topology.size), topology);
}

}  // namespace tutti::runtime
