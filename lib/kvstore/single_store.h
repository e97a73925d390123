#pragma once
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// Creates a `dist_sync_mpi` store over one rank of several. It has the methods of the collective
/// store, but no thread, no messages and no shared memory. It works on the caller's thread, so
/// every `Pending` that it returns is already done. With tensors on a GPU it works like `device`.
std::unique_ptr<Backend> make_single_backend(const std::string& type, const Options& options);

}  // namespace tutti
