#pragma once
#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>

#include "mpi/communicator.h"

namespace tutti::mpi {

/// Inside lib/mpi only. A collective call under way, and what it reads and writes. MPI cannot
/// cancel one.
struct CollectiveCall {
  CollectiveCall() = default;
  virtual ~CollectiveCall() = default;
  CollectiveCall(const CollectiveCall&) = delete;
  CollectiveCall& operator=(const CollectiveCall&) = delete;

  MPI_Request request = MPI_REQUEST_NULL;
};

/// Blocks until the call is done; `name` is MPI's. Throws `timeout` with "waiting for
/// <waiting_for>" after `limit`, and what `look` throws; then the call is kept until MPI has done
/// with it.
void wait_for(const std::shared_ptr<CollectiveCall>& call, const char* name,
              std::chrono::milliseconds limit, const std::string& waiting_for,
              const Communicator::Look& look);

/// Whether a call that was given up is still not done: MPI cannot be finalised then.
bool calls_left_open();

}  // namespace tutti::mpi
