#pragma once
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// `dist_sync_mpi` over one rank of several. It has the methods of the collective store, but no
/// thread, no messages and no shared memory. It works on the caller's thread, so every `Pending`
/// that it returns is already done. For tensors on a GPU it works as `device` does.
std::unique_ptr<Backend> make_single_backend(const std::string& type, const Options& options);

}  // namespace tutti
