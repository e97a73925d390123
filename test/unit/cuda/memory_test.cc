#include "cuda/memory.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "../errors.h"
#include "base/mapping.h"
#include "cuda/kernels.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti::cuda;

TEST_CASE("a GPU tells how much of its memory is free") {
  const standin::Playing machine("devices=2");
  const Gpu gpu(0);
  const Gpu other(1);
  const auto free_of = [](const Gpu& one) {
    const ContextGuard context(one);
    return one.free_bytes();
  };
  const std::size_t before = free_of(gpu);
  const std::size_t other_before = free_of(other);
  {
    const DeviceMemory memory(gpu, 1000);
    CHECK(free_of(gpu) == before - 1000);
    CHECK(free_of(other) == other_before);
  }
  CHECK(free_of(gpu) == before);
}

TEST_CASE("the driver tells where memory lies", "[gpu]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const DeviceMemory device(gpu, 100);
  const PinnedMemory pinned(gpu, 100);
  int ordinary = 0;

  const Location on_device = locate(static_cast<std::byte*>(device.data()) + 99);
  CHECK(on_device.kind == Location::Kind::device);
  CHECK(on_device.ordinal == 0);
  CHECK(on_device.context == gpu.context());
  CHECK(locate(pinned.data()).kind == Location::Kind::host);
  CHECK(locate(pinned.data()).is_pinned);
  CHECK(locate(&ordinary).kind == Location::Kind::host);
  CHECK_FALSE(locate(&ordinary).is_pinned);
}

TEST_CASE("the driver tells of memory on the second device, and of managed memory") {
  const standin::Playing machine("devices=2");
  const Gpu gpu(1);
  const ContextGuard context(gpu);
  const DeviceMemory device(gpu, 100);
  CHECK(locate(device.data()).ordinal == 1);
  CHECK(locate(device.data()).context == gpu.context());
  CUdeviceptr managed = 0;
  standin::function<decltype(cuMemAllocManaged)>("libcuda.so.1", "cuMemAllocManaged")(
      &managed, 64, CU_MEM_ATTACH_GLOBAL);
  CHECK(locate(reinterpret_cast<void*>(managed)).kind == Location::Kind::managed);
}

TEST_CASE("a mapping can be pinned for as long as it is needed", "[gpu]") {
  const Gpu gpu(0);
  constexpr std::size_t bytes = 1 << 16;
  const auto file = tutti::base::create_memory_file("pinned", bytes);
  const tutti::base::Mapping mapping(file, bytes);
  {
    const Registration registration(gpu, mapping.span());
    CHECK(registration.is_pinned());
    CHECK(locate(mapping.data() + 1).is_pinned);
    const Registration twice(gpu, mapping.span());
    CHECK_FALSE(twice.is_pinned());
  }
  CHECK_FALSE(locate(mapping.data()).is_pinned);
}

TEST_CASE("to make and to free memory and kernels does not break another thread's capture",
          "[gpu]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream captured(gpu);
  constexpr std::size_t bytes = 1 << 16;
  const auto file = tutti::base::create_memory_file("pinned", bytes);
  const tutti::base::Mapping mapping(file, bytes);
  auto* const begin =
      standin::function<decltype(cuStreamBeginCapture)>("libcuda.so.1", "cuStreamBeginCapture_v2");
  auto* const end =
      standin::function<decltype(cuStreamEndCapture)>("libcuda.so.1", "cuStreamEndCapture");
  CUgraph graph = nullptr;
  begin(captured.handle(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    const Gpu same(0);
    const Kernels kernels(same);
    const DeviceMemory device(same, 100);
    const PinnedMemory pinned(same, 100);
    const Registration registration(same, mapping.span());
    CHECK(registration.is_pinned());
  }).join();
  CHECK(end(captured.handle(), &graph) == 0);
}

TEST_CASE("where pinning is refused copies work all the same") {
  const standin::Playing machine("", "cuMemHostRegister#1=800");
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  std::vector<std::byte> memory(1000, std::byte{7});
  const Registration registration(gpu, memory);
  CHECK_FALSE(registration.is_pinned());
  const DeviceMemory device(gpu, 1000);
  const Stream stream(gpu);
  std::vector<std::byte> back(1000);
  stream.copy_to_device(device.data(), memory.data(), 1000);
  stream.copy_to_host(back.data(), device.data(), 1000);
  stream.synchronize();
  CHECK(back == memory);
}

TEST_CASE("no memory is a pointer to none", "[gpu]") {
  const Gpu gpu(0);
  CHECK(DeviceMemory(gpu, 0).data() == nullptr);
  CHECK(PinnedMemory(gpu, 0).data() == nullptr);
  CHECK_FALSE(Registration(gpu, {}).is_pinned());
}

TEST_CASE("a device without memory says so") {
  const standin::Playing machine("", "cuMemAlloc#1=2 cuMemHostAlloc#1=2");
  const Gpu gpu(0);
  CHECK(tutti::error_of([&] { DeviceMemory(gpu, 100); }) ==
        "internal: gpu(0): cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  CHECK(tutti::error_of([&] { PinnedMemory(gpu, 100); }) ==
        "internal: gpu(0): cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}
