#pragma once
#include <cstddef>

#include "topology/topology.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// A rank's share of a segment that all ranks of its node use. The shares of all these ranks add up
/// to the segment.
std::size_t segment_share(std::size_t bytes, const topology::Topology& topology);

/// The size of each rank's arena on a machine with this much memory. An arena is a range of
/// addresses; every rank of the node maps the arenas of all. A process may have many stores over
/// groups of ranks, so the arenas of a group are smaller.
std::size_t arena_bytes(std::size_t machine_bytes, int local_size, bool over_some_ranks);

/// The most bytes that the engine and the rank's share of the segments take, with this many ranks
/// on each node. This is the formula in lib/DESIGN.md without its last line, the calls in flight.
std::size_t most_buffer_bytes(const Options& options, int ranks_per_node, int nodes);

}  // namespace tutti::runtime
