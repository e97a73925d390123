// Memory that CUDA knows, and copies.
#include <cstdlib>
#include <cstring>

#include "calls.h"
#include "unseen.h"

using namespace standin;

namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr unsigned char poison = 0xA5;
constexpr std::size_t device_bytes = std::size_t{80} << 30;  // of one device

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

}  // namespace

extern "C" {

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

}  // extern "C"
