#include "kvstore/local_gpu.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/memory.h"

namespace tutti {
namespace {

struct GpuBlock {
  std::shared_ptr<const cuda::Gpu> gpu;
  cuda::DeviceMemory memory;
};

}  // namespace

Tensor gpu_tensor(const std::shared_ptr<const cuda::Gpu>& gpu, const Shape& shape, DType dtype) {
  const Device device{Device::Kind::gpu, gpu->ordinal()};
  if (shape.count() == 0) return {nullptr, shape, dtype, device};
  const std::size_t bytes = shape.count() * size_of(dtype);
  const auto block = not_in_child(new GpuBlock{gpu, cuda::DeviceMemory(*gpu, bytes)});
  return {std::shared_ptr<void>(block, block->memory.data()), shape, dtype, device};
}

}  // namespace tutti
