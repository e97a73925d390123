#pragma once
#include <memory>

#include "kvstore/backend.h"
#include "kvstore/types.h"
#include "tutti/options.h"

namespace tutti {

/// The store of a worker in a parameter-server job: `dist_sync`, `dist_async` and their kin. Blocks
/// until all processes of the job are there. In a build without parameter server it throws
/// `unsupported`.
std::unique_ptr<Backend> make_server_backend(const StoreType& type, const Options& options);

}  // namespace tutti
