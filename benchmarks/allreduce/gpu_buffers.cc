#include "benchmarks/allreduce/gpu_buffers.h"

namespace tutti::bench {

GpuBuffers::GpuBuffers(const cuda::Gpu& gpu, const Buffers& host, DType dtype)
    : gpu_(gpu), host_(host), in_(gpu, host.in_count * size_of(dtype)) {
  if (host.in == host.out) return;
  out_ = std::make_unique<cuda::DeviceMemory>(gpu, host.out_count * size_of(dtype));
}

void GpuBuffers::take_input() const {
  const cuda::ContextGuard context(gpu_);
  const cuda::Stream stream(gpu_);
  stream.copy_to_device(in_.data(), host_.in, in_.size());
  if (out_) stream.copy_to_device(out_->data(), host_.out, out_->size());
  stream.synchronize();
}

void GpuBuffers::give_result() const {
  const cuda::ContextGuard context(gpu_);
  const cuda::Stream stream(gpu_);
  stream.copy_to_host(host_.out, out(), out_ ? out_->size() : in_.size());
  stream.synchronize();
}

}  // namespace tutti::bench
