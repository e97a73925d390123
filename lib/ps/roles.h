#pragma once
#include "ps/job.h"
#include "tutti/options.h"

namespace tutti::ps {

/// Is the scheduler of the job until that is over. True: it ended well; the reason is logged if
/// not. Throws `invalid_argument` if it cannot listen where the job says, and `internal`.
bool run_scheduler(const Job& job, const Options& options);

/// Is a server of the job until that is over. Throws what keeps it from joining the job, and
/// `peer_lost` when the scheduler is lost.
void run_server(const Job& job, const Options& options);

}  // namespace tutti::ps
