#pragma once

#include "ps/link/job.h"
#include "tutti/options.h"
#include "tutti/server.h"

namespace tutti::ps {

/// Runs a server of the job until the job is over. Throws the error that keeps it from joining the
/// job, `peer_lost` if the scheduler is lost, `aborted` after SIGTERM, and the error that keeps it
/// from storing its state.
void run_server(const Job& job, const Options& options, const Durability& durability = {});

}  // namespace tutti::ps
