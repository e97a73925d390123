#pragma once
#include <memory>

#include "base/fork_guard.h"
#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/stream.h"
#include "tutti/tensor.h"

namespace tutti {

/// Owns objects that a forked child must not destroy, because CUDA does not work there.
template <typename T>
std::shared_ptr<T> not_in_child(T* made) {
  return {made, [guard = base::ForkGuard()](T* owned) {
            if (!guard.is_in_child()) delete owned;
          }};
}

/// A store of one process has this on its GPU. All work that the store gives the GPU is in one
/// stream, so that it is done in order. Lives as long as a value, a tensor from `allocate` or a
/// Pending needs it.
struct LocalGpu {
  explicit LocalGpu(int ordinal) : gpu(ordinal) {}

  const cuda::Gpu gpu;
  const cuda::Stream stream{gpu};
  const cuda::Kernels kernels{gpu};
  cuda::EventPool events{gpu};
};

/// A tensor in memory of its own on a GPU, with any contents. Throws as cuda::DeviceMemory.
Tensor gpu_tensor(const std::shared_ptr<const cuda::Gpu>& gpu, const Shape& shape, DType dtype);

}  // namespace tutti
