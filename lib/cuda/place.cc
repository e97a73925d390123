#include "cuda/place.h"

#include <fmt/format.h>

#include "cuda/memory.h"

namespace tutti::cuda {

std::optional<std::string> trouble_with(const Tensor& tensor, const Gpu& gpu) {
  if (tensor.bytes() == 0) return std::nullopt;
  const Location place = locate(tensor.data());
  if (place.kind == Location::Kind::host) {
    return fmt::format("is said to be on {}, but its memory is the host's", name(tensor.device()));
  }
  if (place.ordinal != gpu.ordinal()) {
    return fmt::format("is said to be on {}, but its memory is on gpu({})", name(tensor.device()),
                       place.ordinal);
  }
  if (place.context != nullptr && place.context != gpu.context()) {
    return fmt::format(
        "belongs to a context of its own on {}, and tutti works in the primary one, as CUDA's "
        "runtime does",
        name(tensor.device()));
  }
  return std::nullopt;
}

}  // namespace tutti::cuda
