#pragma once
#include <memory>

#include "kvstore/backend.h"
#include "kvstore/types.h"
#include "tutti/options.h"

namespace tutti {

/// Creates the store of a worker in a parameter-server job: `dist_sync`, `dist_async` or one of
/// their variants. Blocks until all processes of the job have come. A build without the parameter
/// server throws `unsupported`.
std::unique_ptr<Backend> make_server_backend(const StoreType& type, const Options& options);

}  // namespace tutti
