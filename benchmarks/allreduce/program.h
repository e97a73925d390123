#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/allreduce/contestant.h"
#include "benchmarks/allreduce/settings.h"
#include "benchmarks/allreduce/world.h"

namespace tutti::bench {

using Contestants = std::vector<std::unique_ptr<Contestant>>;

/// Called when the command line asks for tutti, in whichever way. MPI ends after the contestants.
using MakeTutti = std::function<Contestants(const World&, const Settings&)>;

/// The whole program, with MPI's lane in it: parses, races, prints. `settings` are the defaults.
/// Returns the exit status: 1 when a result was wrong,
/// 2 when the command line was.
int run_program(int argc, char** argv, Settings settings, const MakeTutti& make_tutti_ones);

}  // namespace tutti::bench
