#pragma once
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// The `dist_sync_mpi` store. Collective over MPI_COMM_WORLD, blocking; see KVStore::create.
/// A build without MPI throws `unsupported`.
std::unique_ptr<Backend> make_collective_backend(const std::string& type, const Options& options);

}  // namespace tutti
