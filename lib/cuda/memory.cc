#include "cuda/memory.h"

#include <array>

#include "base/log.h"
#include "cuda/driver.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

/// cuMemHostRegister returns these codes for memory that it cannot pin. The device itself works.
bool is_refusal(CUresult result) {
  return result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED ||
         result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_INVALID_VALUE ||
         result == CUDA_ERROR_OPERATING_SYSTEM || result == CUDA_ERROR_SYSTEM_NOT_READY ||
         result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

}  // namespace

DeviceMemory::DeviceMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu), size_(bytes) {
  if (bytes == 0) return;  // CUDA refuses to allocate nothing
  const ContextGuard context(gpu);
  const RelaxedCapture relaxed;
  CUdeviceptr address = 0;
  checked(driver().cuMemAlloc(&address, bytes), "cuMemAlloc", gpu.ordinal());
  data_ = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's type
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  const RelaxedCapture relaxed;
  logged(driver().cuMemFree(reinterpret_cast<std::uintptr_t>(data_)), "cuMemFree", gpu_.ordinal());
}

PinnedMemory::PinnedMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu), size_(bytes) {
  if (bytes == 0) return;
  const ContextGuard context(gpu);
  const RelaxedCapture relaxed;
  void* data = nullptr;
  checked(driver().cuMemHostAlloc(&data, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc",
          gpu.ordinal());
  data_ = static_cast<std::byte*>(data);
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  const RelaxedCapture relaxed;
  logged(driver().cuMemFreeHost(data_), "cuMemFreeHost", gpu_.ordinal());
}

Registration::Registration(const Gpu& gpu, std::span<std::byte> memory)
    : gpu_(gpu), memory_(memory) {
  if (memory.empty()) return;
  const ContextGuard context(gpu);
  const RelaxedCapture relaxed;
  const CUresult result =
      driver().cuMemHostRegister(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE);
  pinned_ = result == CUDA_SUCCESS;
  try {
    checked(result, "cuMemHostRegister", gpu.ordinal());
  } catch (const Error& error) {
    if (!is_refusal(result)) throw;
    base::log().warn(
        "{} bytes of host memory stay unpinned, so copies to and from the device are "
        "slower: {}",
        memory.size(), error.what());
  }
}

Registration::~Registration() {
  if (!pinned_) return;
  const RelaxedCapture relaxed;
  logged(driver().cuMemHostUnregister(memory_.data()), "cuMemHostUnregister", gpu_.ordinal());
}

Location locate(const void* pointer) {
  CUmemorytype type{};
  // CUDA calls this a boolean, but the driver writes as many bytes as an unsigned int has.
  unsigned int managed = 0;
  int ordinal = -1;
  CUcontext context = nullptr;
  std::array<CUpointer_attribute, 4> attributes{
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
  std::array<void*, 4> values{&type, &managed, &ordinal, &context};
  checked(driver().cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                          reinterpret_cast<std::uintptr_t>(pointer)),
          "cuPointerGetAttributes", -1);
  if (managed != 0) return {Location::Kind::managed, false, ordinal, context};
  if (type == CU_MEMORYTYPE_DEVICE) return {Location::Kind::device, false, ordinal, context};
  return {Location::Kind::host, type == CU_MEMORYTYPE_HOST, -1, nullptr};
}

}  // namespace tutti::cuda
