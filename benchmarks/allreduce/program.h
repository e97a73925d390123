#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/allreduce/contestant.h"
#include "benchmarks/allreduce/settings.h"
#include "benchmarks/allreduce/world.h"

namespace tutti::bench {

using Contestants = std::vector<std::unique_ptr<Contestant>>;

/// Makes the contestants of tutti; called if the command line asks for any. MPI ends after the
/// contestants.
using MakeTutti = std::function<Contestants(const World&, const Settings&)>;

/// The whole program, which measures MPI too: parses the command line, measures, prints. `settings`
/// are the defaults. Returns the exit status: 1 if a result was wrong or below --min-busbw, 2 if
/// the command line was wrong.
int run_program(int argc, char** argv, Settings settings, const MakeTutti& make_tutti_ones);

}  // namespace tutti::bench
