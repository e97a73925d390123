#pragma once
#include "ps/link/job.h"
#include "tutti/options.h"
#include "tutti/server.h"

namespace tutti::ps {

/// Is the scheduler of the job until that is over. True: it ended well; the reason is logged if
/// not. Throws `invalid_argument` if it cannot listen where the job says, and `internal`.
bool run_scheduler(const Job& job, const Options& options);

/// Is a server of the job until that is over. Throws what keeps it from joining the job,
/// `peer_lost` when the scheduler is lost, `aborted` after SIGTERM, and what keeps it from storing
/// its state.
void run_server(const Job& job, const Options& options, const Durability& durability = {});

}  // namespace tutti::ps
