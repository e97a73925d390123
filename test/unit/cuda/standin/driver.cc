// The driver's functions, as libcuda.so.1 exports them.
#include "cuda/driver.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gpu.h"
#include "kernel_table.h"
#include "unseen.h"

using namespace standin;

namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr unsigned char poison = 0xA5;
constexpr std::size_t device_bytes = std::size_t{80} << 30;  // of one device

thread_local std::vector<Device*> contexts;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local Stream* own_stream = nullptr;  // CU_STREAM_PER_THREAD

std::atomic<bool> exiting = false;
[[gnu::destructor]] void leave() {
  exiting = true;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Device* current() {
  return contexts.empty() ? nullptr : contexts.back();
}

enum Needs : unsigned {
  nothing = 0,
  initialised = 1,
  context = 2 | initialised,
  no_capture = 4,  ///< would break the capture of a stream by another thread
  enqueues = 8,    ///< a late or hanging fault strikes the work, not the call
};

/// The beginning of every call: refuses it, or says how its work fails.
struct Call {
  std::optional<CUresult> refused;
  std::optional<Fault> fault;
};

CUresult planned_error(const Fault& fault) {
  const auto error = static_cast<CUresult>(fault.error);
  const bool is_sticky = fault.error >= CUDA_ERROR_ILLEGAL_ADDRESS && fault.error < 720;
  if (is_sticky && current() != nullptr) current()->sticky = error;
  return error;
}

Call enter(const char* function, unsigned needs) {
  const Unseen unseen;
  if (exiting) return {CUDA_ERROR_DEINITIALIZED, {}};
  Lock lock(world().mutex);
  if ((needs & initialised) != 0 && !world().initialised) return {CUDA_ERROR_NOT_INITIALIZED, {}};
  const auto fault = world().faults.next(function);
  if (fault && fault->kind == Fault::Kind::skip) return {CUDA_SUCCESS, {}};
  if (fault && fault->kind == Fault::Kind::at_once) return {planned_error(*fault), {}};
  if (fault && fault->kind == Fault::Kind::hang && (needs & enqueues) == 0) {
    lock.unlock();
    hang();
  }
  if ((needs & context) == context) {
    if (current() == nullptr) return {CUDA_ERROR_INVALID_CONTEXT, {}};
    if (current()->sticky != CUDA_SUCCESS) return {current()->sticky, {}};
  }
  if ((needs & no_capture) != 0 && world().captures > 0 &&
      capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    world().capture_broken = true;
    return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {}};
  }
  return {{}, fault};
}

/// The stream of a handle; null if there is none or it is of another context than the current one.
Stream* find(CUstream handle) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    Stream*& legacy = current()->legacy;
    if (legacy == nullptr) legacy = make_stream(*current());
    return legacy;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    if (own_stream == nullptr) own_stream = make_stream(*current());
    return own_stream;
  }
  const auto found = world().streams.find(handle);
  if (found == world().streams.end() || found->second->destroyed) return nullptr;
  return found->second->device == current() ? found->second.get() : nullptr;
}

Event* find(CUevent handle) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const auto found = world().events.find(handle);
  if (found == world().events.end() || found->second->destroyed) return nullptr;
  return found->second.get();
}

bool is_capturing(const Stream& stream) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return stream.capturing;
}

void give(Stream& stream, const Call& call, std::optional<Engine> engine, std::size_t bytes,
          Stream::Work work) {
  if (is_capturing(stream)) return;  // it would run with the graph
  enqueue(stream,
          std::make_unique<Stream::Task>(Stream::Task{std::move(work), engine, bytes, call.fault}));
}

bool is_on_device(const void* address, std::size_t bytes) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const Block* const block = find_block(address, bytes);
  return block != nullptr &&
         (block->kind == Block::Kind::device || block->kind == Block::Kind::managed);
}

bool is_known(const void* address, std::size_t bytes) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return find_block(address, bytes) != nullptr;
}

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

/// Copies between host and device. CUDA does so while the caller waits where the host's memory is
/// not pinned. The caller learns nothing of the stream's other work.
CUresult copy(const char* function, Engine engine, void* to, const void* from, std::size_t bytes,
              CUstream handle, const void* device, const void* host) {
  const Call call = enter(function, context | enqueues);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_on_device(device, bytes)) return CUDA_ERROR_INVALID_VALUE;
  give(*stream, call, engine, bytes, [=] {
    std::memcpy(to, from, bytes);
    return CUDA_SUCCESS;
  });
  const bool waits = host != nullptr && !is_known(host, bytes) && !is_capturing(*stream);
  if (waits) wait_until_passed(stream->end, record(*stream, stream->end));
  return CUDA_SUCCESS;
}

CUresult add_block(void** address, std::size_t bytes, Block::Kind kind) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const Unseen unseen;
  void* memory = nullptr;
  if (::posix_memalign(&memory, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(memory, poison, bytes);
  const Lock lock(world().mutex);
  world().memory[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, kind, current()};
  *address = memory;
  return CUDA_SUCCESS;
}

/// Forgets the block that begins there. The device waits for its work first, as CUDA does.
CUresult remove_block(void* address, bool frees) {
  Device* device = nullptr;
  {
    const Unseen unseen;
    const Lock lock(world().mutex);
    const auto found = world().memory.find(reinterpret_cast<std::uintptr_t>(address));
    if (found == world().memory.end()) return CUDA_ERROR_INVALID_VALUE;
    device = found->second.device;
    world().memory.erase(found);
  }
  drain(*device);
  if (frees) std::free(address);
  return CUDA_SUCCESS;
}

struct Attribute {
  CUmemorytype type{};
  bool managed = false;
  int ordinal = -2;  // CU_DEVICE_INVALID
  CUcontext owner = nullptr;
};

Attribute attribute_of(CUdeviceptr address) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const Block* const block = find_block(pointer(address), 1);
  if (block == nullptr) return {};
  const bool host = block->kind == Block::Kind::pinned || block->kind == Block::Kind::registered;
  return {host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, block->kind == Block::Kind::managed,
          block->device->ordinal, reinterpret_cast<CUcontext>(block->device)};
}

struct NamedError {
  CUresult error;
  const char* name;
  const char* text;
};
constexpr NamedError errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const NamedError* find_error(CUresult error) {
  for (const NamedError& named : errors) {
    if (named.error == error) return &named;
  }
  return nullptr;
}

}  // namespace

extern "C" {

/// For tests: another machine, and what fails there.
void standin_configure(const char* machine, const char* faults) {
  const Unseen unseen;
  configure(machine, faults);
}

/// For tests: one thread of a launch that would take too long as a whole. False: no such kernel.
bool standin_run_thread(const char* name, const void* argument, unsigned blocks, unsigned threads,
                        unsigned block, unsigned thread) {
  const Kernel* const kernel = find_kernel(name);
  if (kernel != nullptr) kernel->run(argument, blocks, threads, block, thread);
  return kernel != nullptr;
}

/// For the stand-in of NCCL: work that takes the engine of the links.
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

CUresult cuGetErrorName(CUresult error, const char** name) {
  const NamedError* const found = find_error(error);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const NamedError* const found = find_error(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
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
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(reinterpret_cast<Device*>(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  const Call call = enter("cuCtxPushCurrent", initialised);
  if (call.refused) return *call.refused;
  contexts.push_back(reinterpret_cast<Device*>(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  const Call call = enter("cuCtxPopCurrent", initialised);
  if (call.refused) return *call.refused;
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(contexts.back());
  contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  const Call call = enter("cuCtxGetDevice", context);
  if (call.refused) return *call.refused;
  *device = current()->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  const Call call = enter("cuStreamCreate", context);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  *stream = reinterpret_cast<CUstream>(make_stream(*current()));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
  const Call call = enter("cuStreamDestroy", initialised);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  const auto found = world().streams.find(handle);
  if (found == world().streams.end() || found->second->destroyed) return CUDA_ERROR_INVALID_HANDLE;
  found->second->destroyed = true;
  world().changed.notify_all();
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  const Call call = enter("cuStreamSynchronize", context | no_capture);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return finish(*stream);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  const Call call = enter("cuStreamWaitEvent", context | enqueues);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  Event* const event = find(event_handle);
  if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::uint64_t record = last_record(*event);
  give(*stream, call, std::nullopt, 0, [event, record] {
    wait_until_passed(*event, record);
    observe_record(*event, record);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  const Call call = enter("cuStreamIsCapturing", context);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *status = is_capturing(*stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  const Call call = enter("cuStreamBeginCapture", context);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Unseen unseen;
  const Lock lock(world().mutex);
  stream->capturing = true;
  world().capture_broken = world().capture_broken && world().captures > 0;
  ++world().captures;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const Call call = enter("cuStreamEndCapture", context);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Unseen unseen;
  const Lock lock(world().mutex);
  stream->capturing = false;
  --world().captures;
  *graph = nullptr;
  return world().capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  const Call call = enter("cuLaunchHostFunc", context | enqueues);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  give(*stream, call, std::nullopt, 0, [function, data] {
    function(data);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  const Call call = enter("cuEventCreate", context);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  auto made = std::make_unique<Event>();
  made->device = current();
  *event = reinterpret_cast<CUevent>(made.get());
  world().events[*event] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  const Call call = enter("cuEventDestroy", initialised);
  if (call.refused) return *call.refused;
  Event* const event = find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Unseen unseen;
  const Lock lock(world().mutex);
  event->destroyed = true;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event_handle, CUstream handle) {
  const Call call = enter("cuEventRecord", context);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  Event* const event = find(event_handle);
  if (stream == nullptr || event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_capturing(*stream)) record(*stream, *event);
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  const Call call = enter("cuEventQuery", initialised | no_capture);
  if (call.refused) return *call.refused;
  Event* const event = find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::uint64_t record = 0;
  {
    const Unseen unseen;
    const Lock lock(world().mutex);
    record = event->records.size();
    if (event->device->sticky != CUDA_SUCCESS) return event->device->sticky;
    if (event->passed < record) return CUDA_ERROR_NOT_READY;
  }
  observe_record(*event, record);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent handle) {
  const Call call = enter("cuEventSynchronize", initialised | no_capture);
  if (call.refused) return *call.refused;
  Event* const event = find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  wait_until_passed(*event, last_record(*event));
  return cuEventQuery(handle);
}

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  const Call call = enter("cuMemAlloc", context | no_capture);
  if (call.refused) return *call.refused;
  void* memory = nullptr;
  const CUresult result = add_block(&memory, bytes, Block::Kind::device);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned) {
  const Call call = enter("cuMemAllocManaged", context | no_capture);
  if (call.refused) return *call.refused;
  void* memory = nullptr;
  const CUresult result = add_block(&memory, bytes, Block::Kind::managed);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

CUresult cuMemFree(CUdeviceptr address) {
  const Call call = enter("cuMemFree", initialised | no_capture);
  if (call.refused) return *call.refused;
  return remove_block(pointer(address), true);
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call = enter("cuMemGetInfo", context);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  *total = device_bytes;
  *free = device_bytes;
  for (const auto& [address, block] : world().memory) {
    if (block.kind == Block::Kind::device && block.device == current()) *free -= block.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  const Call call = enter("cuMemHostAlloc", context | no_capture);
  if (call.refused) return *call.refused;
  return add_block(address, bytes, Block::Kind::pinned);
}

CUresult cuMemFreeHost(void* address) {
  const Call call = enter("cuMemFreeHost", initialised | no_capture);
  if (call.refused) return *call.refused;
  return remove_block(address, true);
}

CUresult cuMemHostRegister(void* address, std::size_t bytes, unsigned) {
  const Call call = enter("cuMemHostRegister", context | no_capture);
  if (call.refused) return *call.refused;
  const Unseen unseen;
  const Lock lock(world().mutex);
  if (find_block(address, 1) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  world().memory[reinterpret_cast<std::uintptr_t>(address)] = {bytes, Block::Kind::registered,
                                                               current()};
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* address) {
  const Call call = enter("cuMemHostUnregister", initialised | no_capture);
  if (call.refused) return *call.refused;
  return remove_block(address, false);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  const Call call = enter("cuPointerGetAttributes", initialised);
  if (call.refused) return *call.refused;
  const Attribute found = attribute_of(address);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<CUmemorytype*>(values[i]) = found.type;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned int*>(values[i]) = found.managed ? 1 : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = found.ordinal;
        break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(values[i]) = found.owner;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy("cuMemcpyHtoDAsync", Engine::h2d, pointer(to), from, bytes, stream, pointer(to),
              from);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoHAsync", Engine::d2h, to, pointer(from), bytes, stream, pointer(from),
              to);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  if (bytes > 0 && !is_on_device(pointer(from), bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy("cuMemcpyDtoDAsync", Engine::d2d, pointer(to), pointer(from), bytes, stream,
              pointer(to), nullptr);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const Call call = enter("cuModuleLoadData", context | no_capture);
  if (call.refused) return *call.refused;
  constexpr std::uint32_t fatbin_magic = 0xBA55ED50;
  if (*static_cast<const std::uint32_t*>(image) != fatbin_magic) return CUDA_ERROR_INVALID_IMAGE;
  *module = reinterpret_cast<CUmodule>(current());
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule) {
  const Call call = enter("cuModuleUnload", initialised | no_capture);
  return call.refused.value_or(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  const Call call = enter("cuModuleGetFunction", context);
  if (call.refused) return *call.refused;
  *function = reinterpret_cast<CUfunction>(const_cast<Kernel*>(find_kernel(name)));
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, CUstream handle, void** parameters, void**) {
  const Call call = enter("cuLaunchKernel", context | enqueues);
  if (call.refused) return *call.refused;
  Stream* const stream = find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == 0 || threads == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto* const kernel = reinterpret_cast<const Kernel*>(function);
  const auto* const bytes = static_cast<const std::byte*>(parameters[0]);
  const std::vector<std::byte> argument(bytes, bytes + kernel->argument_bytes);
  give(*stream, call, Engine::kernel, kernel->bytes(argument.data()),
       [kernel, argument, blocks, threads] {
         for (unsigned i = 0; i < blocks * threads; ++i) {
           kernel->run(argument.data(), blocks, threads, i / threads, i % threads);
         }
         return CUDA_SUCCESS;
       });
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace {

struct Entry {
  const char* name;
  int version;
  void* address;
};

// What tests call beside what tutti does.
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
