#include "benchmarks/allreduce/gpu_buffers.h"

#include <algorithm>

namespace tutti::bench {

GpuBuffers::GpuBuffers(const cuda::Gpu& gpu, const Buffers& host, DType dtype, bool in_place)
    : gpu_(gpu),
      host_in_(static_cast<std::byte*>(host.in)),
      host_out_(static_cast<std::byte*>(host.out)),
      base_(in_place ? std::min(host_in_, host_out_) : host_in_),
      out_bytes_(host.out_count * size_of(dtype)),
      in_(gpu, in_place ? std::max(host.in_count, host.out_count) * size_of(dtype)
                        : host.in_count * size_of(dtype)) {
  if (!in_place) out_ = std::make_unique<cuda::DeviceMemory>(gpu, out_bytes_);
}

void* GpuBuffers::out() const {
  return out_ ? out_->data() : static_cast<std::byte*>(in_.data()) + (host_out_ - base_);
}

void GpuBuffers::take_input() const {
  const cuda::ContextGuard context(gpu_);
  const cuda::Stream stream(gpu_);
  stream.copy_to_device(in_.data(), base_, in_.size());
  if (out_) stream.copy_to_device(out_->data(), host_out_, out_bytes_);
  stream.synchronize();
}

void GpuBuffers::give_result() const {
  const cuda::ContextGuard context(gpu_);
  const cuda::Stream stream(gpu_);
  stream.copy_to_host(host_out_, out(), out_bytes_);
  stream.synchronize();
}

}  // namespace tutti::bench
