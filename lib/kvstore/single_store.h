#pragma once
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// `dist_sync_mpi` over one rank of several: the methods of the collective store, but no thread, no
/// message and no memory shared with anybody. It works on the caller's thread, so that every
/// `Pending` it returns is done already, but for tensors on a GPU, where it works as `device` does.
std::unique_ptr<Backend> make_single_backend(const std::string& type, const Options& options);

}  // namespace tutti
