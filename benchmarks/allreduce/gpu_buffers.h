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
  /// The GPU and the host's buffers outlive it. `in_place`: the smaller of the host's buffers lies
  /// in the other one, and so it does on the device.
  GpuBuffers(const cuda::Gpu& gpu, const Buffers& host, DType dtype, bool in_place);

  void* in() const { return static_cast<std::byte*>(in_.data()) + (host_in_ - base_); }
  void* out() const;
  Device device() const { return {Device::Kind::gpu, gpu_.ordinal()}; }

  /// Copies what is in the host's buffers to the device, and the result back. They block until the
  /// copies are done.
  void take_input() const;
  void give_result() const;

 private:
  const cuda::Gpu& gpu_;
  std::byte* const host_in_;
  std::byte* const host_out_;
  std::byte* const base_;  ///< where the memory of `in_` begins on the host
  const std::size_t out_bytes_;
  cuda::DeviceMemory in_;
  std::unique_ptr<cuda::DeviceMemory> out_;  ///< none in place
};

}  // namespace tutti::bench
