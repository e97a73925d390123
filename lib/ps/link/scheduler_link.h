#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "net/end_notices.h"
#include "net/epoll_bell.h"
#include "net/heartbeat.h"
#include "ps/link/channel.h"
#include "ps/link/job.h"
#include "tutti/error.h"
#include "tutti/options.h"

namespace tutti::ps {

/// A node's connection to the scheduler, for the thread that owns the poller. It throws the failure
/// of a `Refused`, or `peer_lost`, or `timeout`. After a throw the job is over for this node.
///
/// That thread may be busy for a long time, for example with the program's callbacks. So
/// `beat_apart` starts a thread of this object that sends the heartbeats.
class SchedulerLink {
 public:
  /// Tries to connect until `create_timeout` has passed, or until `look` throws, which is called
  /// meanwhile. `token` marks its events in `poller`, which outlives this object.
  SchedulerLink(const Job& job, const Options& options, net::Poller& poller, std::uint64_t token,
                const std::function<void()>& look = {});
  ~SchedulerLink();
  SchedulerLink(const SchedulerLink&) = delete;
  SchedulerLink& operator=(const SchedulerLink&) = delete;

  /// This host's address on the connection.
  const std::string& local_address() const { return local_address_; }

  /// Calls `wait`. If `wait` throws `peer_lost`, and the launcher says within a second which
  /// process has ended, throws that instead: the scheduler, or its connection, may have ended
  /// because of that process.
  template <typename Wait>
  auto or_word_of_end(const Wait& wait) {
    try {
      return wait();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::peer_lost) await_word_of_end();
      throw;
    }
  }

  /// Blocks until all nodes are there. A worker also waits until all servers are ready. Throws the
  /// scheduler's failure if it answers with one, and `aborted` if it says that the job is over.
  /// Adds host and process to `Register`.
  Welcome join(Register said, const std::function<void()>& look = {});

  void send(const ToScheduler& message) TUTTI_EXCLUDES(mutex_);
  void flush() TUTTI_EXCLUDES(mutex_);
  /// The time at which to call `flush` even if nothing was sent.
  std::optional<base::Clock::time_point> due() const TUTTI_EXCLUDES(mutex_);
  /// Call this when an event of the connection has come. A worker's connection may end after `End`,
  /// and a server's after `Over`.
  void receive(const std::function<void(const FromScheduler&)>& take) TUTTI_EXCLUDES(mutex_);
  /// The time at which to call `beat`. Before that time `beat` does nothing.
  base::Clock::time_point next_beat() const TUTTI_EXCLUDES(mutex_);
  void beat() TUTTI_EXCLUDES(mutex_);
  /// From now on heartbeats leave even if nobody calls `beat`. `beat_here` ends this.
  void beat_apart();
  void beat_here();
  /// Whether the connection has ended.
  bool has_ended() const TUTTI_EXCLUDES(mutex_);
  /// For a server: whether the job is over, and whether the workers want another store. The second
  /// is returned once.
  bool is_over() const { return over_; }
  bool takes_another() { return std::exchange(another_, false); }
  /// Sends the queued messages, and waits until the scheduler has received them, for a few seconds
  /// at most.
  void close() TUTTI_EXCLUDES(mutex_);
  void abandon() TUTTI_THREAD_ATTRIBUTE(no_thread_safety_analysis);

 private:
  net::ProvenPeer connect(const Job& job, const Options& options,
                          const std::function<void()>& look);
  Welcome wait_for_welcome(bool asynchronous, const std::function<void()>& look);
  /// Throws `peer_lost` if the launcher says that a process has ended which must come.
  void check_ends();
  void pause_for(base::Clock::duration time);
  void await_word_of_end();
  void show_life_until_stopped() noexcept;
  void note(const FromScheduler& message);

  const std::string scheduler_;
  const Role role_;
  net::Poller& poller_;
  const net::Heartbeat heartbeat_;
  const base::Clock::time_point deadline_;
  const base::Clock::duration create_timeout_;
  const base::Clock::duration begin_timeout_;  ///< the time that servers may take to begin
  net::EndNotices notices_;                    ///< heard until all have come
  std::string local_address_;
  mutable base::Mutex mutex_{5};
  std::optional<Channel> link_ TUTTI_GUARDED_BY(mutex_);
  net::Ticker ticker_ TUTTI_GUARDED_BY(mutex_);
  std::vector<FromScheduler> early_;  ///< came together with Welcome
  bool over_ = false;
  bool another_ = false;
  std::atomic<bool> stops_{false};
  std::atomic<std::uint32_t> asleep_{0};
  net::EpollBell bell_;
  base::NamedThread heart_;  // must be the last member: the thread uses members above
};

/// The purposes of a job's handshakes. A proof for one purpose is not valid for another.
inline constexpr const char* scheduler_purpose = "ps scheduler";
inline std::string server_purpose(std::uint64_t job) {
  return "ps server of job " + std::to_string(job);
}

/// Throws the failure of another node as an error of this process.
[[noreturn]] void throw_failure(const Failure& failure);
Failure failure_of(const Lost& lost);
/// The failure of a process that ended before all had come.
Failure failure_of(const net::EndNotice& notice);

/// Without a secret a job must not be reachable from other machines. Throws `invalid_argument` if
/// it would be.
void check_may_use(const Job& job, const std::string& address);

}  // namespace tutti::ps
