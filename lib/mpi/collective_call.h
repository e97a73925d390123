#pragma once
#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>

#include "mpi/communicator.h"

namespace tutti::mpi {

/// Open MPI polls its sockets only in one of this many calls.
inline constexpr int calls_a_look = 8;

/// For lib/mpi only. A non-blocking collective call under way, and the memory that it reads and
/// writes. MPI cannot cancel it.
struct CollectiveCall {
  CollectiveCall() = default;
  virtual ~CollectiveCall() = default;
  CollectiveCall(const CollectiveCall&) = delete;
  CollectiveCall& operator=(const CollectiveCall&) = delete;

  /// Tests it: whether MPI has done with it. Throws what `name`, MPI's call, failed with.
  virtual bool poll(const char* name);

  MPI_Request request = MPI_REQUEST_NULL;
};

/// Blocks until the call is done; `name` is the MPI function. Throws `timeout`, "waited ... for
/// <waiting_for>", after `limit`, and what `look` throws. After a throw the call's memory is kept
/// until MPI has finished the call.
void wait_for(const std::shared_ptr<CollectiveCall>& call, const char* name,
              std::chrono::milliseconds limit, const std::string& waiting_for,
              const Communicator::Look& look);

/// Tests the calls that were given up: whether one has still not ended. MPI cannot be finalised
/// then.
bool poll_left_open();

}  // namespace tutti::mpi
