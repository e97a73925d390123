// The driver's functions, as libcuda.so.1 exports them: devices, contexts, and where all are found.
#include "cuda/driver.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "calls.h"
#include "kernel_table.h"
#include "unseen.h"

using namespace standin;

namespace {

using Lock = std::unique_lock<std::mutex>;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

extern "C" {

/// For tests: sets another machine and its faults.
void standin_configure(const char* machine, const char* faults) {
  const Unseen unseen;
  configure(machine, faults);
}

/// For tests: runs one thread of a launch that would take too long as a whole. Returns false if
/// there is no such kernel.
bool standin_run_thread(const char* name, const void* argument, unsigned blocks, unsigned threads,
                        unsigned block, unsigned thread) {
  const Kernel* const kernel = find_kernel(name);
  if (kernel != nullptr) kernel->run(argument, blocks, threads, block, thread);
  return kernel != nullptr;
}

/// For the stand-in of NCCL: enqueues work that takes the engine of the links.
void standin_enqueue(CUstream handle, void (*work)(void*), void* data, std::size_t bytes) {
  Stream* const stream = find(handle);
  give(*stream, {}, Engine::nccl, bytes, [work, data] {
    work(data);
    return CUDA_SUCCESS;
  });
}

CUresult cuInit(unsigned) {
  const Unseen unseen;
  {
    const Lock lock(world().mutex);
    if (world().initialised) return CUDA_SUCCESS;
  }
  if (world().devices.empty()) {
    configure(variable("STANDIN_GPU"), variable("STANDIN_FAULTS"));
  }
  const Call call = enter("cuInit", nothing);
  if (call.refused) return *call.refused;
  const Lock lock(world().mutex);
  if (world().machine.devices == 0) return CUDA_ERROR_NO_DEVICE;
  world().initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = read_machine(variable("STANDIN_GPU")).driver;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const Call call = enter("cuDeviceGetCount", initialised);
  if (call.refused) return *call.refused;
  *count = world().machine.devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const Call call = enter("cuDeviceGet", initialised);
  if (call.refused) return *call.refused;
  if (ordinal < 0 || ordinal >= world().machine.devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  const Call call = enter("cuDeviceGetName", initialised);
  if (call.refused) return *call.refused;
  std::snprintf(name, static_cast<std::size_t>(length), "stand-in %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  const Call call = enter("cuDeviceGetUuid", initialised);
  if (call.refused) return *call.refused;
  std::memset(uuid->bytes, 0x5A, sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const Call call = enter("cuDeviceGetAttribute", initialised);
  if (call.refused) return *call.refused;
  if (attribute != CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) return CUDA_ERROR_INVALID_VALUE;
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Call call = enter("cuDevicePrimaryCtxRetain", initialised);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  Device* const found = world().devices[static_cast<std::size_t>(device)].get();
  ++found->retained;
  *context = reinterpret_cast<CUcontext>(found);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const Call call = enter("cuDevicePrimaryCtxRelease", initialised);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  Device& found = *world().devices[static_cast<std::size_t>(device)];
  if (found.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  // A new context begins without the old one's error.
  if (--found.retained == 0) found.sticky = CUDA_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  const Call call = enter("cuCtxGetCurrent", initialised);
  if (call.refused) return *call.refused;
  *context = reinterpret_cast<CUcontext>(current());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const Call call = enter("cuCtxSetCurrent", initialised);
  if (call.refused) return *call.refused;
  if (!contexts().empty()) contexts().pop_back();
  if (context != nullptr) contexts().push_back(reinterpret_cast<Device*>(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  const Call call = enter("cuCtxPushCurrent", initialised);
  if (call.refused) return *call.refused;
  contexts().push_back(reinterpret_cast<Device*>(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  const Call call = enter("cuCtxPopCurrent", initialised);
  if (call.refused) return *call.refused;
  if (contexts().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(contexts().back());
  contexts().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  const Call call = enter("cuCtxGetDevice", context);
  if (call.refused) return *call.refused;
  *device = current()->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode());
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace {

struct Entry {
  const char* name;
  int version;
  void* address;
};

// The functions that tests call in addition to those that tutti calls.
#define FOR_TESTS(FUNCTION)             \
  FUNCTION(cuLaunchHostFunc, 10000)     \
  FUNCTION(cuMemAllocManaged, 6000)     \
  FUNCTION(cuStreamBeginCapture, 10010) \
  FUNCTION(cuStreamEndCapture, 10000)

#define SAME_TYPE(name, version) \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&name)>);
TUTTI_DRIVER_FUNCTIONS(SAME_TYPE)
FOR_TESTS(SAME_TYPE)

#define ENTRY(name, version) {#name, version, reinterpret_cast<void*>(&name)},
const Entry entries[] = {TUTTI_DRIVER_FUNCTIONS(ENTRY) FOR_TESTS(ENTRY)};

}  // namespace

extern "C" CUresult cuGetProcAddress(const char* symbol, void** address, int version, cuuint64_t,
                                     CUdriverProcAddressQueryResult* status) {
  const int driver = read_machine(variable("STANDIN_GPU")).driver;
  *address = nullptr;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  for (const Entry& entry : entries) {
    if (std::strcmp(entry.name, symbol) != 0 || entry.version > driver) continue;
    const bool enough = version >= entry.version;
    *status = enough ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (enough) *address = entry.address;
  }
  return *address == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
