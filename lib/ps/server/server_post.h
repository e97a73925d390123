#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/termination.h"
#include "net/poller.h"
#include "ps/link/scheduler_link.h"

namespace tutti::ps {

/// A server's connection to the scheduler, which outlives its stores.
class ServerPost {
 public:
  ServerPost(const Job& job, const Options& options) : job_(job), options_(options) {}

  /// The first call connects. By then the process has read the states that it brings. The scheduler
  /// waits for that no longer than for a process that has not come.
  SchedulerLink& link();
  /// From now on SIGTERM ends this process in an orderly way. Until then it ends it at once.
  void watch_termination();
  /// Throws `aborted` where SIGTERM has come.
  void check_terminated();
  /// Readable when something has arrived, SIGTERM too.
  const base::Fd& descriptor() const { return poller_.descriptor(); }
  bool is_over() const { return link_ && link_->is_over(); }
  /// Blocks until workers create another store. False: all of them have ended. Call it when a store
  /// is over.
  bool waits_for_another();
  /// Reads what has arrived. Throws what ends the job for this process, and closes the connection
  /// when the job is over. Call it when a store is over and something may have arrived.
  void hear();
  /// Says why this process ends, if it is connected.
  void leave(const std::string& reason) noexcept;

 private:
  const Job& job_;
  const Options& options_;
  net::Poller poller_;
  std::optional<SchedulerLink> link_;
  std::optional<base::Termination> termination_;
  bool is_closed_ = false;
};

}  // namespace tutti::ps
