#pragma once
#include <cstddef>

#include "topology/topology.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// What a rank counts of a segment that all ranks of its node share, so that they count it once
/// together.
std::size_t segment_share(std::size_t bytes, const topology::Topology& topology);

/// The most that the segments' share and the engine hold with so many ranks on each node: the
/// formula in lib/DESIGN.md but for its last line, the calls in flight.
std::size_t most_buffer_bytes(const Options& options, int ranks_per_node, int nodes);

}  // namespace tutti::runtime
