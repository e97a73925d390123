#pragma once
#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>

#include "mpi/communicator.h"

namespace tutti::mpi {

/// Open MPI polls its sockets only in one of this many calls.
inline constexpr int calls_a_look = 8;

/// A non-blocking collective call under way, and the memory that it reads and writes. MPI cannot
/// cancel it. For lib/mpi only.
struct CollectiveCall {
  CollectiveCall() = default;
  virtual ~CollectiveCall() = default;
  CollectiveCall(const CollectiveCall&) = delete;
  CollectiveCall& operator=(const CollectiveCall&) = delete;

  /// Whether MPI has finished the call. If it failed, throws its error. `name` is the MPI function.
  virtual bool poll(const char* name);

  MPI_Request request = MPI_REQUEST_NULL;
};

/// Blocks until the call is done. `name` is the MPI function. Throws `timeout`, "waited ... for
/// <waiting_for>", after `limit`, and the errors that `look` throws. After a throw the call's
/// memory is kept until MPI has finished the call.
void wait_for(const std::shared_ptr<CollectiveCall>& call, const char* name,
              std::chrono::milliseconds limit, const std::string& waiting_for,
              const Communicator::Look& look);

/// Tests the calls that were given up. Returns whether one of them has still not ended. Then MPI
/// cannot be finalised.
bool poll_left_open();

}  // namespace tutti::mpi
