#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// The devices whose tensors a store takes.
enum class Takes : std::uint8_t { cpu, cpu_and_gpu, gpu };

/// The stores of one process: `local`, `device`, `nccl` and their other names. They sum over the
/// devices of this process, and keep the values of initialised keys on the device of their tensors.
/// On the host they work on the caller's thread, so every `Pending` that they return is already
/// done. On a GPU they enqueue the work. Update rules run on the host, so calls with an optimizer
/// wait for the GPU.
std::unique_ptr<Backend> make_local_backend(const std::string& type, Takes takes,
                                            const Options& options);

}  // namespace tutti
