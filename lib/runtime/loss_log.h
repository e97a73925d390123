#pragma once
#include <atomic>
#include <string>

#include "control/loss.h"
#include "runtime/inbox.h"

namespace tutti::runtime {

/// Logs the loss of a rank, once a store, from whichever thread learns of it first. Under plain
/// mpirun this process is about to be killed, too, and Open MPI may hold the communication thread
/// in a call: the line cannot wait for it. Thread-safe.
class LossLog {
 public:
  /// `inbox` outlives it; it knows the keys in flight.
  LossLog(int rank, Inbox& inbox) : rank_(rank), inbox_(inbox) {}

  /// What control threads call: composes the line.
  void write(const control::LostRank& lost);
  /// The line as it is.
  void write(const std::string& line);

 private:
  const int rank_;
  Inbox& inbox_;
  std::atomic<bool> written_{false};
};

}  // namespace tutti::runtime
