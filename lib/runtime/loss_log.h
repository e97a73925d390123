#pragma once
#include <atomic>
#include <string>

#include "control/loss_slot.h"
#include "runtime/inbox.h"
#include "runtime/place.h"

namespace tutti::runtime {

/// Logs the loss of a rank once for each store, on the thread that learns of it first. It must not
/// wait for the communication thread: plain mpirun is about to kill this process too, and Open MPI
/// may hold that thread in a call. Thread-safe.
class LossLog {
 public:
  /// Both references outlive this object. `inbox` tells which keys are in flight.
  LossLog(const Place& place, Inbox& inbox) : place_(place), inbox_(inbox) {}

  /// Control threads call this. It words the line and logs it.
  void write(const control::FailedRank& lost);
  /// Logs this message of the loss of `rank`.
  void write(int rank, const std::string& message);

 private:
  const Place& place_;
  Inbox& inbox_;
  std::atomic<bool> written_{false};
};

}  // namespace tutti::runtime
