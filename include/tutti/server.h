#pragma once
#include "tutti/export.h"
#include "tutti/options.h"

namespace tutti {

/// Makes this process the scheduler or a server of a parameter-server job, as DMLC_ROLE says, until
/// the job is over; the program `tutti-server` is this and nothing else. Blocks. Returns whether
/// the job ended well; why it did not is logged. Throws `invalid_argument` for an environment that
/// names no place in a job, and what keeps the process from joining; `peer_lost` when the scheduler
/// is lost; `unsupported` in a build without parameter server.
TUTTI_EXPORT bool run_server(const Options& options);

}  // namespace tutti
