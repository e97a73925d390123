#pragma once
#include <memory>

#include "gpu_arrays.h"
#include "tutti/kvstore.h"

namespace tutti {

/// A program with two arrays on the GPU, and a store of one process.
struct Scene {
  GpuProgram program;
  std::unique_ptr<KVStore> store = KVStore::create("device", Options{});
  GpuArray a{program, DType::f32, some_elements(DType::f32, 1000, 1)};
  GpuArray b{program, DType::f32, some_elements(DType::f32, 1000, 2)};
};

}  // namespace tutti
