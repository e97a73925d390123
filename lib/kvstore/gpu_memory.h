#pragma once
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/memory.h"
#include "kvstore/local_gpu.h"
#include "kvstore/local_memory.h"

namespace tutti {

/// The memory of a store's GPU. Its methods enqueue work in the GPU's stream and return at once,
/// unless their comments say that they block. The caller makes the GPU's context current. Only one
/// thread may use an object at a time.
class GpuMemory final : public LocalMemory {
 public:
  /// The methods that block throw `timeout` after `limit`.
  GpuMemory(std::shared_ptr<LocalGpu> gpu, std::chrono::milliseconds limit)
      : gpu_(std::move(gpu)), limit_(limit) {}

  LocalGpu& gpu() const { return *gpu_; }
  const std::shared_ptr<LocalGpu>& shared_gpu() const { return gpu_; }
  /// Takes the host memory that the enqueued work uses. The caller keeps it until that work is
  /// done.
  std::vector<Tensor> take_kept() { return std::exchange(kept_, {}); }

  /// Blocks until all enqueued work is done.
  void wait() const;

  Tensor own(const Shape& shape, DType dtype) override;
  void copy(const Tensor& from, const Tensor& to) override;
  void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) override;
  Tensor merged_on_host(std::span<const Tensor> ins, ReduceOp op) override;
  Tensor on_host(const Tensor& value) override;
  void put_back(const Tensor& on_host, const Tensor& to) override;

 private:
  /// Pinned host memory, which is kept for the next call.
  class Mirror {
   public:
    /// Returns a tensor on the host with the shape and dtype of this one.
    Tensor like(const Tensor& tensor, const cuda::Gpu& gpu);

   private:
    std::shared_ptr<cuda::PinnedMemory> memory_;
  };
  void reduce(std::span<const Tensor> ins, void* out, ReduceOp op);
  /// Waits until the work has written this tensor, and returns it. If the wait throws, keeps the
  /// memory, because the work has still to write it.
  Tensor when_written(const Tensor& on_host);

  const std::shared_ptr<LocalGpu> gpu_;
  const std::chrono::milliseconds limit_;
  Mirror merged_;
  Mirror value_;
  std::vector<Tensor> kept_;
};

}  // namespace tutti
