#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "tutti/export.h"
#include "tutti/options.h"

namespace tutti {

/// The folder in which a server keeps its state on disk, and the time at which it writes the state.
struct Durability {
  /// The safety of a push when its worker learns that the server has applied it:
  /// - `off`: it is not on disk. The server writes a checkpoint now and then, which another job can
  ///   restore.
  /// - `seconds`: the server has written it to the operating system, so it survives the end of the
  ///   server's process. It is on disk at most `interval` later.
  /// - `each`: it is on disk.
  enum class When : std::uint8_t { off, seconds, each };

  /// The folder for the state. Empty: the server keeps no state on disk.
  /// - If the folder does not exist, the server creates it, for this user alone. It refuses a
  ///   folder that another user may change.
  /// - Each server needs its own DMLC_RANK.
  /// - If a job did not end in order, its servers may have left states of different moments. The
  ///   scheduler and the workers of the next job then log a warning that names these servers.
  std::string folder{};
  When when = When::off;
  std::chrono::seconds interval{0};
  /// A folder with the states of all servers of an earlier job, from which this server begins. That
  /// job may have had more or fewer servers. If it is set, `folder` must not have a state yet.
  std::string restore{};
  /// The server writes another checkpoint when its journal has more bytes than this, and is also
  /// larger than two checkpoints. A server that is started again reads the journal. So with a small
  /// value a server starts faster, but writes more checkpoints.
  std::uint64_t journal_bytes = std::uint64_t{64} << 20;
};

/// Makes this process the scheduler or a server of a parameter-server job, as DMLC_ROLE says. The
/// program `tutti-server` does nothing else.
///
/// Blocks until the job is over: until the processes of all workers have ended, however many stores
/// they created. Returns whether the job ended well; if not, it logs the reason. SIGTERM asks the
/// process to end. `run_server` raises the process's limit of open files as far as the system
/// allows.
///
/// Errors:
/// - `invalid_argument`: the environment names no place in a job, the limit of open files is too
///   low for the job, or the state on disk cannot be used;
/// - `peer_lost`: the scheduler is lost;
/// - `aborted`: SIGTERM has ended this server;
/// - `unsupported`: this build has no parameter server;
/// - any other error that keeps the process from joining the job.
TUTTI_EXPORT bool run_server(const Options& options, const Durability& durability = {});

}  // namespace tutti
