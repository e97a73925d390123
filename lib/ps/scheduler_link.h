#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/heartbeat.h"
#include "ps/channel.h"
#include "ps/job.h"
#include "tutti/options.h"

namespace tutti::ps {

/// A node's connection to the scheduler, for the thread that owns the poller. What it throws, but
/// for what `Refused` says, is `peer_lost` or `timeout`, and the job is over for this node.
class SchedulerLink {
 public:
  /// Tries to connect until `create_timeout` has passed since now. `token`: of its events in
  /// `poller`, which outlives it.
  SchedulerLink(const Job& job, const Options& options, net::Poller& poller, std::uint64_t token);

  /// This host's address on the connection, or where that is hidden by the scheduler's name one of
  /// the network that leads elsewhere.
  const std::string& local_address() const { return local_address_; }

  /// Blocks until all nodes are there, a worker until all servers are ready. Throws what the
  /// scheduler answers instead. It adds host and process to what is said.
  Welcome join(Register said);

  void send(const ToScheduler& message);
  void flush() { link_->flush(); }
  /// When to call `flush` though nothing was sent.
  std::optional<base::Clock::time_point> due() const { return link_->due(); }
  /// Call it when its event has come. After `End` the scheduler may go.
  void receive(const std::function<void(const FromScheduler&)>& take);
  /// When to call `beat`, which does nothing before.
  base::Clock::time_point next_beat() const { return ticker_.next(); }
  void beat();
  /// Sends what is queued, and waits until the scheduler has it, a few seconds at most.
  void close();
  void abandon() { link_->abandon(); }

 private:
  net::ProvenPeer connect(const Job& job, const Options& options) const;

  const std::string scheduler_;
  net::Poller& poller_;
  const net::Heartbeat heartbeat_;
  const base::Clock::time_point deadline_;
  const base::Clock::duration begin_timeout_;  ///< what servers may take to begin
  std::string local_address_;
  std::optional<Channel> link_;
  net::Ticker ticker_;
  std::vector<FromScheduler> early_;  ///< came together with Welcome
  bool over_ = false;
};

/// What the handshakes of one job are for, so that no proof for one kind serves another.
inline constexpr const char* scheduler_purpose = "ps scheduler";
inline std::string server_purpose(std::uint64_t job) {
  return "ps server of job " + std::to_string(job);
}

/// An error that a node's failure is for this process.
[[noreturn]] void throw_failure(const Failure& failure);
Failure failure_of(const Lost& lost);

/// Without a secret a job must not be reachable from elsewhere. Throws `invalid_argument`.
void check_may_use(const Job& job, const std::string& address);
/// Whether processes of other hosts come to the scheduler, though its name leads this host to the
/// loopback interface, as Debian has a host's own name do. `address`: what the name leads to here.
bool is_hidden_by_own_name(const Job& job, const std::string& address);

}  // namespace tutti::ps
