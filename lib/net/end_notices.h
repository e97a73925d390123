#pragma once
#include <string>
#include <vector>

#include "base/fd.h"

namespace tutti::net {

/// A notice of the launcher that a process of the job has ended.
struct EndNotice {
  std::string title;  ///< "worker 1", "server 0", "scheduler"
  int worker = -1;    ///< the worker's number; -1 if it is no worker
  std::string text;   ///< "worker 1 on h1 ended with exit code 3"
};

/// Receives notices of ended processes of the job from scripts/launch.py: with any exit status,
/// from any host, and even of processes that had not come to a store. The launcher's helper beside
/// this process sends them (scripts/launcher/notices.py), as long as this object lives. Without a
/// launcher none ever comes. Only one thread at a time may use it.
class EndNotices {
 public:
  /// The environment variable in which the launcher gives the address.
  static constexpr const char* variable = "TUTTI_END_NOTICES";

  /// `address` is that of an abstract Unix socket. If it is empty, there is no launcher. `job` is
  /// this job's name. The launcher of a job with another name sends nothing.
  EndNotices(const std::string& address, const std::string& job);

  /// Readable when there is something to take in. Empty if nothing will ever come.
  const base::Fd& descriptor() const { return socket_; }
  /// The notices that have come, the first one first. Does not block.
  const std::vector<EndNotice>& heard();
  /// Stops to listen.
  void close() { socket_.reset(); }
  /// Tells the launcher that all processes have come, so that servers have something to do.
  void tell_complete() const;

 private:
  base::Fd socket_;
  std::vector<EndNotice> heard_;
};

}  // namespace tutti::net
