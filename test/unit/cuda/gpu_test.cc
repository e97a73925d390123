#include "cuda/gpu.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "../errors.h"
#include "cuda/facts.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti;
using namespace tutti::cuda;

TEST_CASE("devices have a model and a name of their own") {
  const standin::Playing machine("devices=2");
  const auto gpus = list_gpus();
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[1].ordinal == 1);
  CHECK(gpus[1].model == "stand-in 1");
  CHECK(gpus[0].uuid == "GPU-5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a00");
  CHECK(gpus[1].uuid == "GPU-5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01");
}

TEST_CASE("a device that is not there is refused by its number") {
  const standin::Playing machine("devices=2");
  CHECK(error_of([] { Gpu(2); }) ==
        "invalid_argument: there is no gpu(2): CUDA shows this process 2 devices");
  CHECK(error_of([] { Gpu(-1); }) ==
        "invalid_argument: there is no gpu(-1): CUDA shows this process 2 devices");
}

TEST_CASE("a thread's device is that of its current context") {
  const standin::Playing machine("devices=2");
  const Gpu zero(0);
  const Gpu one(1);
  CHECK(current_gpu() == std::nullopt);
  {
    const ContextGuard outer(zero);
    CHECK(current_gpu() == 0);
    const ContextGuard inner(one);
    CHECK(current_gpu() == 1);
    std::thread([&] {
      CHECK(current_gpu() == std::nullopt);
      set_current(zero);
      CHECK(current_gpu() == 0);
    }).join();
  }
  CHECK(current_gpu() == std::nullopt);
}

TEST_CASE("a thread that relaxed its capture mode does not break a capture", "[gpu]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream captured(gpu);
  const Event event(gpu);
  auto* const begin =
      standin::function<decltype(cuStreamBeginCapture)>("libcuda.so.1", "cuStreamBeginCapture_v2");
  auto* const end =
      standin::function<decltype(cuStreamEndCapture)>("libcuda.so.1", "cuStreamEndCapture");
  CUgraph graph = nullptr;
  CHECK_FALSE(is_capturing(captured.handle()));

  begin(captured.handle(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(is_capturing(captured.handle()));
  CHECK_THROWS_AS(event.is_done(), Error);
  CHECK(end(captured.handle(), &graph) != 0);

  begin(captured.handle(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    set_current(gpu);
    relax_capture_mode();
    CHECK(event.is_done());
  }).join();
  CHECK(end(captured.handle(), &graph) == 0);
}

TEST_CASE("an event that was never recorded is done, and events go back to their pool", "[gpu]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  EventPool pool(gpu);
  CUevent_st* first = nullptr;
  {
    const auto event = pool.take();
    CHECK(event->is_done());
    first = event->handle();
    CHECK(pool.take()->handle() != first);
  }
  CHECK(pool.take()->handle() == first);
}

TEST_CASE("work that hangs leaves its event open") {
  const standin::Playing machine("", "cuMemcpyHtoDAsync#1=hang");
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream hung(gpu);
  const Stream well(gpu);
  const Event open(gpu);
  const Event passed(gpu);
  const DeviceMemory device(gpu, 8);
  const PinnedMemory host(gpu, 8);
  hung.copy_to_device(device.data(), host.data(), 8);
  open.record(hung.handle());
  well.copy_to_device(device.data(), host.data(), 8);
  passed.record(well.handle());
  passed.wait();
  CHECK_FALSE(open.is_done());
}

TEST_CASE("an error of the device is everybody's from then on") {
  const standin::Playing machine("", "cuMemcpyDtoHAsync#1=late:700");
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const DeviceMemory device(gpu, 8);
  const PinnedMemory host(gpu, 8);
  const Stream stream(gpu);
  const Event event(gpu);
  const std::string illegal =
      "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)";
  const std::string said = error_of([&] {
    stream.copy_to_host(host.data(), device.data(), 8);
    event.record(stream.handle());
    event.wait();
  });
  CHECK(said.find(" failed: " + illegal) != std::string::npos);  // of the record or the wait
  CHECK(error_of([&] { stream.copy_to_host(host.data(), device.data(), 8); }) ==
        "internal: gpu(0): cuMemcpyDtoHAsync failed: " + illegal);
  CHECK(error_of([&] { const Stream other(gpu); }) ==
        "internal: gpu(0): cuStreamCreate failed: " + illegal);
}

TEST_CASE("every driver call that fails is an error with its name") {
  const std::string launch = "CUDA_ERROR_UNKNOWN (unknown error)";
  for (const std::string call :
       {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuStreamCreate", "cuEventCreate",
        "cuEventRecord", "cuEventQuery", "cuStreamWaitEvent", "cuMemAlloc", "cuMemHostAlloc",
        "cuModuleLoadData", "cuModuleGetFunction", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync",
        "cuLaunchKernel", "cuStreamSynchronize", "cuPointerGetAttributes"}) {
    const standin::Playing machine("", call + "#1=999");
    const std::string said = error_of([] {
      const Gpu gpu(0);
      const ContextGuard context(gpu);
      const Stream stream(gpu);
      const Event event(gpu);
      const DeviceMemory device(gpu, 8);
      const PinnedMemory host(gpu, 8);
      const Kernels kernels(gpu);
      locate(device.data());
      stream.copy_to_device(device.data(), host.data(), 8);
      stream.copy(device.data(), static_cast<std::byte*>(device.data()) + 4, 4);
      event.record(stream.handle());
      stream.wait_for(event);
      static_cast<void>(event.is_done());
      const std::array<const void*, 2> twice{device.data(), device.data()};
      kernels.reduce(stream.handle(), {DType::f32, DType::f32}, twice, device.data(), 1);
      stream.synchronize();
    });
    INFO(said);
    CHECK(said.find(call + " failed: " + launch) != std::string::npos);
  }
}

TEST_CASE("a driver that is going away is no error") {
  const standin::Playing machine(
      "", "cuDevicePrimaryCtxRelease#0=4 cuStreamDestroy#0=4 cuEventDestroy#0=4 cuMemFree#0=4");
  const Gpu gpu(0);
  const Stream stream(gpu);
  const Event event(gpu);
  const DeviceMemory memory(gpu, 8);
}

TEST_CASE("a driver that is too old for the kernels is named") {
  for (const std::string error : {"222", "209"}) {
    const standin::Playing machine("", "cuModuleLoadData#1=" + error);
    const Gpu gpu(0);
    const std::string said = text_of(ErrorCode::unsupported, [&] { Kernels{gpu}; });
    CHECK(said.find("the CUDA driver is too old for gpu(0) (stand-in 0): it offers CUDA 13.0") ==
          0);
  }
}

TEST_CASE("the facts name driver, devices and NCCL") {
  const standin::Playing machine("devices=2");
  const auto found = facts();
  REQUIRE(found.size() == 4);
  CHECK(found[0].name == "CUDA driver");
  CHECK(found[0].value.find("offers CUDA 13.0") == 0);
  CHECK(found[2].name == "gpu(1)");
  CHECK(found[2].value ==
        "stand-in 1, GPU-5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01: runs tutti's kernels");
  CHECK(found[3].name == "NCCL");
  CHECK(found[3].value.find("libnccl.so.2") != std::string::npos);
}

// The rest needs a process of its own: meson.build says which.

TEST_CASE("before a device is wanted nothing loads the driver", "[.][first]") {
  CHECK(current_gpu() == std::nullopt);
  CHECK(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

TEST_CASE("without a driver a device is refused with the loader's reason", "[.][no-driver]") {
  if (::dlopen("libcuda.so.1", RTLD_NOW) != nullptr) return;  // a machine with a GPU
  const std::string text =
      "unsupported: no CUDA driver: libcuda.so.1: cannot open shared object file: No such file or "
      "directory";
  CHECK(error_of([] { Gpu(0); }) == text);
  CHECK(error_of([] { list_gpus(); }) == text);
  CHECK(facts()[0].value == text.substr(text.find("no CUDA")));
}

TEST_CASE("a driver that is too old is refused with its version", "[.][old-driver]") {
  CHECK(error_of([] { Gpu(0); }) ==
        "unsupported: the CUDA driver is too old: it offers CUDA 11.2 and lacks cuDeviceGetUuid of "
        "11.4");
}

TEST_CASE("a machine without a device is refused", "[.][no-device]") {
  CHECK(error_of([] { Gpu(0); }) ==
        "unsupported: CUDA cannot be used: cuInit failed: CUDA_ERROR_NO_DEVICE (no CUDA-capable "
        "device is detected)");
}
