#pragma once
#include <cstddef>

#include "topology/topology.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// A rank's share of a segment that all ranks of its node use: together they count it once.
std::size_t segment_share(std::size_t bytes, const topology::Topology& topology);

/// The size of each rank's arena on a machine of so much memory: a range of addresses, of which
/// every rank of the node maps all. A process may have many stores over some ranks, so these have
/// less.
std::size_t arena_bytes(std::size_t machine_bytes, int local_size, bool over_some_ranks);

/// The most bytes that a rank's share of the segments and its engine take, with this many ranks on
/// each node: the formula in lib/DESIGN.md without its last line, the calls in flight.
std::size_t most_buffer_bytes(const Options& options, int ranks_per_node, int nodes);

}  // namespace tutti::runtime
