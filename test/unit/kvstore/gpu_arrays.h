#pragma once
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "tutti/tensor.h"

namespace tutti {

using Bytes = std::vector<std::byte>;

/// Elements of any dtype. Floats are below 2, so that no sum of a few is a NaN.
inline Bytes some_elements(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count * size_of(dtype));
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  const bool floats = dtype <= DType::f64;
  for (std::size_t i = size_of(dtype) - 1; floats && i < bytes.size(); i += size_of(dtype)) {
    bytes[i] &= std::byte{0xBF};
  }
  return bytes;
}

/// A program that works on a GPU in a stream of its own, in which it never waits before a call.
struct GpuProgram {
  const cuda::Gpu gpu{0};
  const cuda::ContextGuard context{gpu};
  const cuda::Stream stream{gpu};

  DeviceStream handle() const { return stream.handle(); }
};

/// An array on the GPU, filled and read in the program's stream.
class GpuArray {
 public:
  GpuArray(const GpuProgram& program, DType dtype, std::size_t count)
      : program_(program),
        dtype_(dtype),
        count_(count),
        device_(program.gpu, count * size_of(dtype)),
        host_(program.gpu, count * size_of(dtype)) {}
  GpuArray(const GpuProgram& program, DType dtype, const Bytes& elements)
      : GpuArray(program, dtype, elements.size() / size_of(dtype)) {
    fill(elements);
  }

  /// Waits for earlier copies, but not for the copies that it begins.
  void fill(const Bytes& elements) const {
    program_.stream.synchronize();
    std::ranges::copy(elements, host_.data());
    program_.stream.copy_to_device(device_.data(), host_.data(), elements.size());
  }
  /// Waits for no call except those for which the stream waits.
  Bytes read() const {
    if (device_.size() == 0) return {};
    program_.stream.copy_to_host(host_.data(), device_.data(), device_.size());
    program_.stream.synchronize();
    return {host_.data(), host_.data() + device_.size()};
  }
  Tensor tensor() const { return without_stream().on(program_.handle()); }
  Tensor without_stream() const {
    return {device_.data(), {static_cast<std::int64_t>(count_)}, dtype_, {Device::Kind::gpu, 0}};
  }

 private:
  const GpuProgram& program_;
  const DType dtype_;
  const std::size_t count_;
  const cuda::DeviceMemory device_;
  const cuda::PinnedMemory host_;
};

}  // namespace tutti
