#pragma once
#include <string>
#include <vector>

#include "tutti/info.h"

namespace tutti::cuda {

/// Facts for people to read: the driver, the devices, whether tutti's kernels run on them, and
/// NCCL, or why there is none. Initialises CUDA, and makes each device's context for a moment.
/// Never throws because something is missing.
std::vector<Fact> facts();

}  // namespace tutti::cuda
