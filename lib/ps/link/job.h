#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "net/end_notices.h"
#include "net/heartbeat.h"
#include "net/secret.h"
#include "ps/link/injector.h"
#include "ps/protocol/job_size.h"
#include "ps/protocol/messages.h"
#include "tutti/options.h"

namespace tutti::ps {

/// Names and values of environment variables.
using Variables = std::span<const std::pair<std::string, std::string>>;

/// A process's place in a parameter-server job.
struct Job {
  Role role = Role::worker;
  std::string root;        ///< host name or address of the scheduler
  std::uint16_t port = 0;  ///< of the scheduler
  JobSize size;
  int wanted_rank = -1;
  /// The address at which to listen; if it is empty, that of the route.
  std::string node_host;
  std::uint64_t big_count = 1'000'000;  ///< elements from which on a value is split
  net::Secret secret{};
  /// Whether the job was given a secret. If not, it uses the secret of this user's own jobs, and
  /// stays on this machine.
  bool has_secret = false;
  /// A listening socket that the scheduler takes over; -1: it listens by itself.
  int listener = -1;
  std::string end_notices;  ///< the socket at which the launcher tells of ended processes; empty:
                            ///< there is no launcher
  int verbose = 0;          ///< 1: connections are logged, 2: every message
  /// The time between heartbeats, and the time after which a process without heartbeat is lost. If
  /// they are unset, the options decide.
  std::optional<std::chrono::milliseconds> heartbeat_interval{};
  std::optional<std::chrono::milliseconds> heartbeat_timeout{};
  /// The time after which a message is sent again that the other end has not acknowledged. If it is
  /// unset, no message is sent again.
  std::optional<std::chrono::milliseconds> resend_after{};
  Injector::Rates faults{};  ///< of tests
  /// A server stops reading a worker in two cases: if this many bytes of its contributions wait for
  /// others in the server's memory, or if this many bytes of answers wait for the worker. It goes
  /// on reading if another worker waits for that worker.
  std::uint64_t most_waiting_bytes = std::uint64_t{2} << 30;
  /// The same limit for the number of requests.
  std::uint64_t most_waiting_requests = ps::most_waiting_requests / 2;

  /// Reads DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER,
  /// DMLC_RANK, DMLC_NODE_HOST, MXNET_KVSTORE_BIGARRAY_BOUND, TUTTI_JOB_KEY or TUTTI_JOB_KEY_FILE,
  /// TUTTI_LISTEN_FD, TUTTI_END_NOTICES, PS_VERBOSE, PS_HEARTBEAT_INTERVAL, PS_HEARTBEAT_TIMEOUT,
  /// PS_RESEND, PS_RESEND_TIMEOUT, PS_DROP_MSG, PS_DELAY_MSG and PS_DUPLICATE_MSG. Without a key it
  /// also reads HOME, and makes the user's own key there if there is none yet. Throws
  /// `invalid_argument` for a variable that is missing or not usable, and for variables that
  /// contradict each other. The error names the variable.
  static Job from(Variables variables);

  net::Heartbeat heartbeat(const Options& options) const;
  std::chrono::milliseconds silence_limit(const Options& options) const {
    return heartbeat_timeout.value_or(options.heartbeat_timeout);
  }

  /// The name of the Unix socket of a server that listens at this address. The job's processes on
  /// the same machine and in the same network namespace find the server there.
  std::string nearby_name(const std::string& address, std::uint16_t at) const;
  /// The launcher's notices of ended processes, if the launcher has started this job.
  net::EndNotices notices() const;
  /// Returns words such as "the scheduler at 10.0.0.1:9000".
  std::string describe_scheduler() const;
};

}  // namespace tutti::ps
