#pragma once
#include <vector>

#include "collective/tuning.h"
#include "coordinator/types.h"
#include "topology/topology.h"
#include "tutti/info.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// The sizes, limits and policies that a session uses besides its options. `any_thread` says
/// whether the program's threads may move data, too. If an option has set a value, the origin is
/// empty.
std::vector<Choice> choices_of(const topology::Topology& topology,
                               const collective::Machine& machine, const collective::Tuning& tuning,
                               const coordinator::Settings& protocol, const Options& options,
                               bool any_thread);

}  // namespace tutti::runtime
