#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "kvstore/backend.h"
#include "tutti/options.h"

namespace tutti {

/// The devices whose tensors a store takes.
enum class Takes : std::uint8_t { cpu, cpu_and_gpu, gpu };

/// Creates a store of one process: `local`, `device`, `nccl` or a type with one of their other
/// names. Such a store sums over the devices of this process. It keeps the value of each
/// initialised key on the device of the key's tensors. On the host it works on the caller's thread,
/// so every `Pending` that it returns is already done. On a GPU it enqueues the work. Update rules
/// run on the host, so a call with an optimizer waits for the GPU.
std::unique_ptr<Backend> make_local_backend(const std::string& type, Takes takes,
                                            const Options& options);

}  // namespace tutti
