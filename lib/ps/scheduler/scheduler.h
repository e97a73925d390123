#pragma once

#include "ps/link/job.h"
#include "tutti/options.h"

namespace tutti::ps {

/// Is the scheduler of the job until that is over. True: it ended well; the reason is logged if
/// not. Throws `invalid_argument` if it cannot listen where the job says, and `internal`.
bool run_scheduler(const Job& job, const Options& options);

}  // namespace tutti::ps
