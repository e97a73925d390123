#include "kvstore/local_gpu.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/memory.h"

namespace tutti {
namespace {

struct Block {
  std::shared_ptr<const cuda::Gpu> gpu;
  cuda::DeviceMemory memory;
};

}  // namespace

Tensor gpu_tensor(const std::shared_ptr<const cuda::Gpu>& gpu, const Shape& shape, DType dtype) {
  const Device device{Device::Kind::gpu, gpu->ordinal()};
  if (shape.count() == 0) return {nullptr, shape, dtype, device};
  const std::size_t bytes = shape.count() * size_of(dtype);
  const auto block = not_in_child(new Block{gpu, cuda::DeviceMemory(*gpu, bytes)});
  return {std::shared_ptr<void>(block, block->memory.data()), shape, dtype, device};
}

std::optional<std::string> trouble_with(const Tensor& tensor, const cuda::Gpu& gpu) {
  if (tensor.bytes() == 0) return std::nullopt;
  const cuda::Location place = cuda::locate(tensor.data());
  if (place.kind == cuda::Location::Kind::host) {
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

}  // namespace tutti
