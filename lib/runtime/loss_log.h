#pragma once
#include <atomic>
#include <string>

#include "control/loss.h"
#include "runtime/inbox.h"

namespace tutti::runtime {

/// Logs the loss of a rank, once a store, on the thread that learns of it first. It must not wait
/// for the communication thread: plain mpirun is about to kill this process too, and Open MPI may
/// hold that thread in a call. Thread-safe.
class LossLog {
 public:
  /// `inbox` outlives it, and gives the keys in flight.
  LossLog(int rank, Inbox& inbox) : rank_(rank), inbox_(inbox) {}

  /// For control threads: makes the line and logs it.
  void write(const control::LostRank& lost);
  /// Logs the line as it is.
  void write(const std::string& line);

 private:
  const int rank_;
  Inbox& inbox_;
  std::atomic<bool> written_{false};
};

}  // namespace tutti::runtime
