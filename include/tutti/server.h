#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "tutti/export.h"
#include "tutti/options.h"

namespace tutti {

/// What a server keeps on the disk, and when.
struct Durability {
  /// What is on the disk before a worker hears that its push has been applied. `off`: nothing;
  /// checkpoints are written now and then, for another job. `each`: the push. `seconds`: it is in
  /// the system's hands, so that it survives the server, and on the disk `interval` later.
  enum class When : std::uint8_t { off, seconds, each };

  /// The state's folder; empty: nothing is kept. It is made where it is missing, for this user
  /// alone; one that another user may change is refused. A server needs its own DMLC_RANK then.
  /// Where the servers of a job that did not end in order left states of different moments, the
  /// next job's scheduler and workers log a warning that names them.
  std::string folder{};
  When when = When::off;
  std::chrono::seconds interval{0};
  /// The folder of an earlier job's state, of all its servers, which may have been more or fewer.
  /// `folder` has no state yet then.
  std::string restore{};
  /// A journal of more bytes than this, and than two checkpoints have, is worth another checkpoint.
  /// A server that is started again reads the journal; a smaller one costs more checkpoints.
  std::uint64_t journal_bytes = std::uint64_t{64} << 20;
};

/// Makes this process the scheduler or a server of a parameter-server job, as DMLC_ROLE says, until
/// the job is over: until all workers' processes have ended, after however many stores. The program
/// `tutti-server` is this and nothing else. Raises the process's limit of open files as far as it
/// may be raised. Blocks; SIGTERM is taken for a wish to end. Returns whether the job ended well;
/// why it did not is logged. Throws `invalid_argument` for an environment that names no place in a
/// job, for a limit of open files that is too low for the job, and for a state that cannot be used,
/// and what keeps the process from joining; `peer_lost` when the scheduler is lost; `aborted` for a
/// server that SIGTERM ended; `unsupported` in a build without parameter server.
TUTTI_EXPORT bool run_server(const Options& options, const Durability& durability = {});

}  // namespace tutti
