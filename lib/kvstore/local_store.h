#pragma once
#include <memory>
#include <string>

#include "kvstore/backend.h"

namespace tutti {

/// The stores of one process: `local`, `device` and their other names. They sum over the devices
/// of this process, keep the initialised keys' values, and work on the caller's thread: every
/// `Pending` they return is done already.
std::unique_ptr<Backend> make_local_backend(const std::string& type);

}  // namespace tutti
