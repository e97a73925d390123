#pragma once

#include "ps/link/job.h"
#include "tutti/options.h"

namespace tutti::ps {

/// Runs the scheduler of the job until the job is over. Returns true if the job ended well, and
/// otherwise logs the reason. Throws `invalid_argument` if it cannot listen where the job says, and
/// `internal`.
bool run_scheduler(const Job& job, const Options& options);

}  // namespace tutti::ps
