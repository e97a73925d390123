#pragma once
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// Creates the `dist_sync_mpi` store. Blocking, and collective over MPI_COMM_WORLD; see
/// KVStore::create. A build without MPI throws `unsupported`.
std::unique_ptr<Backend> make_collective_backend(const std::string& type, const Options& options);

}  // namespace tutti
