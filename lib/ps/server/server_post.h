#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/termination.h"
#include "net/poller.h"
#include "ps/link/scheduler_link.h"

namespace tutti::ps {

/// A server's connection to the scheduler. It outlives the server's stores.
class ServerPost {
 public:
  ServerPost(const Job& job, const Options& options) : job_(job), options_(options) {}

  /// The first call connects. By then the process has read the states that it brings. The scheduler
  /// waits for that no longer than for a process that has not come.
  SchedulerLink& link();
  /// From now on SIGTERM ends this process in an orderly way. Until then it ends it at once.
  void watch_termination();
  /// Throws `aborted` if SIGTERM has come.
  void check_terminated();
  /// Readable when something has arrived, or SIGTERM has come.
  const base::Fd& descriptor() const { return poller_.descriptor(); }
  bool is_over() const { return link_ && link_->is_over(); }
  /// Blocks until workers create another store. Returns false if all of them have ended. Call it
  /// when a store is over.
  bool waits_for_another();
  /// Reads the messages that have arrived. Throws an error that ends the job for this process.
  /// Closes the connection when the job is over. Call it when a store is over and something may
  /// have arrived.
  void hear();
  /// If this process is connected, tells the scheduler why it ends.
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
