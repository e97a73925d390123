#include "kvstore/gpu_memory.h"

#include <fmt/format.h>

#include "cuda/kernel_arguments.h"
#include "kvstore/gpu_pause.h"

namespace tutti {

Tensor GpuMemory::own(const Shape& shape, DType dtype) {
  return gpu_tensor(std::shared_ptr<const cuda::Gpu>(gpu_, &gpu_->gpu), shape, dtype);
}

void GpuMemory::copy(const Tensor& from, const Tensor& to) {
  if (from.bytes() == 0 || from.data() == to.data()) return;
  gpu_->stream.copy(to.data(), from.data(), from.bytes());
}

void GpuMemory::reduce(std::span<const Tensor> ins, void* out, ReduceOp op) {
  if (ins.size() > cuda::most_sources) {
    throw Error(ErrorCode::unsupported,
                fmt::format("a key has {} tensors on a GPU, but one call sums at most {}; sum "
                            "some of them first",
                            ins.size(), cuda::most_sources));
  }
  std::vector<const void*> sources;
  sources.reserve(ins.size());
  for (const Tensor& in : ins) sources.push_back(in.data());
  const DType dtype = ins.front().dtype();
  gpu_->kernels.reduce(gpu_->stream.handle(), {.in = dtype, .out = dtype, .op = op}, sources, out,
                       ins.front().count());
}

void GpuMemory::merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) {
  if (ins.size() == 1) return copy(ins.front(), out);
  reduce(ins, out.data(), op);
}

Tensor GpuMemory::merged_on_host(std::span<const Tensor> ins, ReduceOp op) {
  const Tensor& first = ins.front();
  Tensor merged = merged_.like(first, gpu_->gpu);
  if (first.bytes() == 0) return merged;
  if (ins.size() == 1) {
    gpu_->stream.copy_to_host(merged.data(), first.data(), first.bytes());
  } else {
    // The kernel itself writes to the host's memory.
    reduce(ins, merged.data(), op);
  }
  return when_written(merged);
}

Tensor GpuMemory::when_written(const Tensor& on_host) {
  kept_.push_back(on_host);
  wait();
  kept_.pop_back();
  return on_host;
}

Tensor GpuMemory::on_host(const Tensor& value) {
  Tensor mirror = value_.like(value, gpu_->gpu);
  if (value.bytes() == 0) return mirror;
  gpu_->stream.copy_to_host(mirror.data(), value.data(), value.bytes());
  return when_written(mirror);
}

void GpuMemory::put_back(const Tensor& on_host, const Tensor& to) {
  if (to.bytes() == 0) return;
  gpu_->stream.copy_to_device(to.data(), on_host.data(), to.bytes());
  kept_.push_back(on_host);
}

void GpuMemory::wait() const {
  const auto end = gpu_->events.take();
  end->record(gpu_->stream.handle());
  GpuPause pause;
  while (!end->is_done()) {
    if (pause.waited() > limit_) throw gpu_timeout(gpu_->gpu.ordinal(), limit_);
    pause.take();
  }
}

Tensor GpuMemory::Mirror::like(const Tensor& tensor, const cuda::Gpu& gpu) {
  if (tensor.bytes() == 0) return {nullptr, tensor.shape(), tensor.dtype()};
  if (memory_ == nullptr || memory_->span().size() < tensor.bytes()) {
    memory_ = not_in_child(new cuda::PinnedMemory(gpu, tensor.bytes()));
  }
  return {std::shared_ptr<void>(memory_, memory_->data()), tensor.shape(), tensor.dtype()};
}

}  // namespace tutti
