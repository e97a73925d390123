#include "cuda/gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "cuda/driver.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    const bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", group ? "-" : "", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

int count_gpus() {
  int count = 0;
  checked(initialised_driver().cuDeviceGetCount(&count), "cuDeviceGetCount", -1);
  return count;
}

CUdevice find(int ordinal) {
  CUdevice device = 0;
  checked(initialised_driver().cuDeviceGet(&device, ordinal), "cuDeviceGet", ordinal);
  return device;
}

GpuName name_of(int ordinal) {
  const CUdevice device = find(ordinal);
  CUuuid uuid{};
  std::array<char, 256> model{};
  checked(driver().cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid", ordinal);
  checked(driver().cuDeviceGetName(model.data(), static_cast<int>(model.size()), device),
          "cuDeviceGetName", ordinal);
  return {ordinal, uuid_text(uuid), model.data()};
}

GpuName checked_name(int ordinal) {
  const int count = count_gpus();
  if (ordinal < 0 || ordinal >= count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no gpu({}): CUDA shows this process {} device{}", ordinal,
                            count, count == 1 ? "" : "s"));
  }
  return name_of(ordinal);
}

}  // namespace

bool is_built() {
  return true;
}

std::vector<GpuName> list_gpus() {
  std::vector<GpuName> gpus;
  const int count = count_gpus();
  gpus.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) gpus.push_back(name_of(ordinal));
  return gpus;
}

std::optional<int> current_gpu() {
  // If the process has a context, it has loaded the driver.
  void* const loaded = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return std::nullopt;
  ::dlclose(loaded);
  CUcontext context = nullptr;
  if (driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return std::nullopt;
  CUdevice device = 0;
  checked(driver().cuCtxGetDevice(&device), "cuCtxGetDevice", -1);
  // In all versions of CUDA a device's handle is its ordinal.
  return device;
}

Gpu::Gpu(int ordinal) : name_(checked_name(ordinal)), device_(find(ordinal)) {
  checked(driver().cuDeviceGetAttribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                        device_),
          "cuDeviceGetAttribute", ordinal);
  const RelaxedCapture relaxed;
  checked(driver().cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain",
          ordinal);
}

Gpu::~Gpu() {
  const RelaxedCapture relaxed;
  logged(driver().cuDevicePrimaryCtxRelease(device_), "cuDevicePrimaryCtxRelease", ordinal());
}

std::size_t Gpu::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  checked(driver().cuMemGetInfo(&free, &total), "cuMemGetInfo", ordinal());
  return free;
}

ContextGuard::ContextGuard(const Gpu& gpu) : ordinal_(gpu.ordinal()) {
  checked(driver().cuCtxPushCurrent(gpu.context()), "cuCtxPushCurrent", ordinal_);
}

ContextGuard::~ContextGuard() {
  CUcontext popped = nullptr;
  logged(driver().cuCtxPopCurrent(&popped), "cuCtxPopCurrent", ordinal_);
}

void set_current(const Gpu& gpu) {
  checked(driver().cuCtxSetCurrent(gpu.context()), "cuCtxSetCurrent", gpu.ordinal());
}

namespace {

/// Sets the mode, and returns the one before. It fails only if there is no such mode. Throws the
/// same errors as `driver`.
CUstreamCaptureMode exchange(CUstreamCaptureMode mode) {
  logged(driver().cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode",
         -1);
  return mode;
}

}  // namespace

void relax_capture_mode() {
  exchange(CU_STREAM_CAPTURE_MODE_RELAXED);
}

RelaxedCapture::RelaxedCapture() : before_(exchange(CU_STREAM_CAPTURE_MODE_RELAXED)) {}

RelaxedCapture::~RelaxedCapture() {
  exchange(static_cast<CUstreamCaptureMode>(before_));
}

}  // namespace tutti::cuda
