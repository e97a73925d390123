#pragma once
#include "base/watchdog.h"
#include "control/presence.h"
#include "tutti/options.h"

namespace tutti::runtime {

// What looks on while MPI does what nothing interrupts. Findings name the ranks that are waited
// for. `presence` outlives what is returned. `on_machine`: how many of the job's ranks run on this
// machine; 0: not known.

/// MPI_Init is hopeless when a rank has ended or is stopped for `heartbeat_timeout`, or after
/// `create_timeout`.
base::Watchdog::Look watch_start(control::Presence& presence, int on_machine,
                                 const Options& options);

/// MPI_Finalize, the same way, but after `key_timeout`: a rank that runs may have something to do
/// before it ends. Reports after `stall_report_after`, then at doubling intervals.
base::Watchdog::Look watch_end(control::Presence& presence, const Options& options);

}  // namespace tutti::runtime
