#pragma once
#include <cstddef>
#include <memory>

#include "benchmarks/allreduce/contestant.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "tutti/tensor.h"

namespace tutti::bench {

/// Input and result on a device, for those on the host. Any thread. All throw as `cuda::Gpu` does.
class GpuBuffers {
 public:
  /// The GPU and the host's buffers outlive it.
  GpuBuffers(const cuda::Gpu& gpu, const Buffers& host, DType dtype);

  void* in() const { return in_.data(); }
  void* out() const { return out_ ? out_->data() : in_.data(); }
  Device device() const { return {Device::Kind::gpu, gpu_.ordinal()}; }

  /// Copies what is in the host's buffers to the device, and the result back. They block until the
  /// copies are done.
  void take_input() const;
  void give_result() const;

 private:
  const cuda::Gpu& gpu_;
  const Buffers host_;
  cuda::DeviceMemory in_;
  std::unique_ptr<cuda::DeviceMemory> out_;  ///< none in place
};

}  // namespace tutti::bench
