#pragma once
// The driver's API, for lib/cuda only. The module's other headers include no header of CUDA.
#include <cudaTypedefs.h>

namespace tutti::cuda {

/// The driver's functions that tutti calls. Beside each function stands the version of CUDA in
/// which its present form appeared. tutti asks cuGetProcAddress for this version. So the function
/// has exactly the type of CUDA's header, whichever driver runs; a plain dlsym would return the
/// oldest form of a name.
#define TUTTI_DRIVER_FUNCTIONS(FUNCTION)     \
  FUNCTION(cuCtxGetCurrent, 4000)            \
  FUNCTION(cuCtxGetDevice, 2000)             \
  FUNCTION(cuCtxPopCurrent, 4000)            \
  FUNCTION(cuCtxPushCurrent, 4000)           \
  FUNCTION(cuCtxSetCurrent, 4000)            \
  FUNCTION(cuDeviceGet, 2000)                \
  FUNCTION(cuDeviceGetAttribute, 2000)       \
  FUNCTION(cuDeviceGetCount, 2000)           \
  FUNCTION(cuDeviceGetName, 2000)            \
  FUNCTION(cuDeviceGetUuid, 11040)           \
  FUNCTION(cuDevicePrimaryCtxRelease, 11000) \
  FUNCTION(cuDevicePrimaryCtxRetain, 7000)   \
  FUNCTION(cuDriverGetVersion, 2020)         \
  FUNCTION(cuEventCreate, 2000)              \
  FUNCTION(cuEventDestroy, 4000)             \
  FUNCTION(cuEventQuery, 2000)               \
  FUNCTION(cuEventRecord, 2000)              \
  FUNCTION(cuEventSynchronize, 2000)         \
  FUNCTION(cuGetErrorName, 6000)             \
  FUNCTION(cuGetErrorString, 6000)           \
  FUNCTION(cuInit, 2000)                     \
  FUNCTION(cuLaunchKernel, 4000)             \
  FUNCTION(cuMemAlloc, 3020)                 \
  FUNCTION(cuMemFree, 3020)                  \
  FUNCTION(cuMemFreeHost, 2000)              \
  FUNCTION(cuMemGetInfo, 3020)               \
  FUNCTION(cuMemHostAlloc, 2020)             \
  FUNCTION(cuMemHostRegister, 6050)          \
  FUNCTION(cuMemHostUnregister, 4000)        \
  FUNCTION(cuMemcpyDtoDAsync, 3020)          \
  FUNCTION(cuMemcpyDtoHAsync, 3020)          \
  FUNCTION(cuMemcpyHtoDAsync, 3020)          \
  FUNCTION(cuModuleGetFunction, 2000)        \
  FUNCTION(cuModuleLoadData, 2000)           \
  FUNCTION(cuModuleUnload, 2000)             \
  FUNCTION(cuPointerGetAttributes, 7000)     \
  FUNCTION(cuStreamCreate, 2000)             \
  FUNCTION(cuStreamDestroy, 4000)            \
  FUNCTION(cuStreamIsCapturing, 10000)       \
  FUNCTION(cuStreamSynchronize, 2000)        \
  FUNCTION(cuStreamWaitEvent, 3020)          \
  FUNCTION(cuThreadExchangeStreamCaptureMode, 10010)

struct DriverFunctions {
#define TUTTI_DRIVER_FUNCTION(name, version) PFN_##name##_v##version name = nullptr;
  TUTTI_DRIVER_FUNCTIONS(TUTTI_DRIVER_FUNCTION)
#undef TUTTI_DRIVER_FUNCTION
};

/// Loads the driver's library when first called, but does not initialise CUDA. Thread-safe. Throws
/// `unsupported` if there is no driver, or one that is too old.
const DriverFunctions& driver();

/// Does the same as `driver`, after cuInit. Also throws `unsupported` if CUDA finds no device.
const DriverFunctions& initialised_driver();

/// Throws `internal` unless `result` is CUDA_SUCCESS: "gpu(0): cuMemAlloc failed:
/// CUDA_ERROR_OUT_OF_MEMORY (out of memory)". If `ordinal` is below 0, it names no device.
void checked(CUresult result, const char* call, int ordinal);

/// For destructors, which cannot throw: logs a failure. It does not count as a failure if the
/// driver is being unloaded because the process exits.
void logged(CUresult result, const char* call, int ordinal) noexcept;

}  // namespace tutti::cuda
