#pragma once
#include <memory>

#include "base/watchdog.h"
#include "control/presence.h"
#include "runtime/failure_detector.h"
#include "tutti/options.h"

namespace tutti::runtime {

// Checks for a Watchdog around MPI_Init and MPI_Finalize, which nothing can interrupt. Their
// findings name the ranks for which the process waits. A wait that is not hopeless yet is logged
// after `stall_report_after`, and then at doubling intervals. `presence` outlives the result.

/// MPI_Init is hopeless if a rank has ended or has been stopped for `heartbeat_timeout`. It is also
/// hopeless after `create_timeout`.
base::Watchdog::Look watch_start(control::Presence& presence, std::shared_ptr<FailureDetector> ends,
                                 const Options& options);

/// MPI_Finalize is hopeless in the same cases, but only after `key_timeout` instead of
/// `create_timeout`, because a rank may have work to do before it ends. The process does not see
/// ranks on other machines, so it waits for them until then.
base::Watchdog::Look watch_end(control::Presence& presence, const Options& options);

}  // namespace tutti::runtime
