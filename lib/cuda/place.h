#pragma once
#include <optional>
#include <string>

#include "cuda/gpu.h"
#include "tutti/tensor.h"

namespace tutti::cuda {

/// For the errors of calls with a tensor with which `gpu` cannot work: the reason. Costs about a
/// microsecond.
std::optional<std::string> trouble_with(const Tensor& tensor, const Gpu& gpu);

}  // namespace tutti::cuda
