#pragma once

#include "ps/link/job.h"
#include "tutti/options.h"
#include "tutti/server.h"

namespace tutti::ps {

/// Is a server of the job until that is over. Throws what keeps it from joining the job,
/// `peer_lost` when the scheduler is lost, `aborted` after SIGTERM, and what keeps it from storing
/// its state.
void run_server(const Job& job, const Options& options, const Durability& durability = {});

}  // namespace tutti::ps
