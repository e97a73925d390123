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

/// The GPU of a store of one process. The store enqueues all its work in one stream, so that the
/// GPU does it in order. The object lives as long as a stored value, a tensor from `allocate` or a
/// Pending needs it.
struct LocalGpu {
  explicit LocalGpu(int ordinal) : gpu(ordinal) {}

  const cuda::Gpu gpu;
  const cuda::Stream stream{gpu};
  const cuda::Kernels kernels{gpu};
  cuda::EventPool events{gpu};
};

/// Returns a tensor with memory of its own on a GPU. Its contents are arbitrary. Throws the same
/// errors as cuda::DeviceMemory.
Tensor gpu_tensor(const std::shared_ptr<const cuda::Gpu>& gpu, const Shape& shape, DType dtype);

}  // namespace tutti
