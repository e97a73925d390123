#pragma once
#include <cstddef>

#include "topology/topology.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// A rank's share of a segment that all ranks of its node use: together they count it once.
std::size_t segment_share(std::size_t bytes, const topology::Topology& topology);

/// The most bytes that a rank's share of the segments and its engine take, with this many ranks on
/// each node: the formula in lib/DESIGN.md without its last line, the calls in flight.
std::size_t most_buffer_bytes(const Options& options, int ranks_per_node, int nodes);

}  // namespace tutti::runtime
