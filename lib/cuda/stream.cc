#include "cuda/stream.h"

#include <cstdint>

#include "cuda/driver.h"

namespace tutti::cuda {
namespace {

CUdeviceptr address(const void* device) {
  return reinterpret_cast<std::uintptr_t>(device);
}

}  // namespace

Stream::Stream(const Gpu& gpu) : gpu_(gpu) {
  const ContextGuard context(gpu);
  checked(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate",
          gpu.ordinal());
}

Stream::~Stream() {
  logged(driver().cuStreamDestroy(stream_), "cuStreamDestroy", gpu_.ordinal());
}

void Stream::copy_to_device(void* device, const void* host, std::size_t bytes) const {
  checked(driver().cuMemcpyHtoDAsync(address(device), host, bytes, stream_), "cuMemcpyHtoDAsync",
          gpu_.ordinal());
}

void Stream::copy_to_host(void* host, const void* device, std::size_t bytes) const {
  checked(driver().cuMemcpyDtoHAsync(host, address(device), bytes, stream_), "cuMemcpyDtoHAsync",
          gpu_.ordinal());
}

void Stream::copy(void* to, const void* from, std::size_t bytes) const {
  checked(driver().cuMemcpyDtoDAsync(address(to), address(from), bytes, stream_),
          "cuMemcpyDtoDAsync", gpu_.ordinal());
}

void Stream::wait_for(const Event& event) const {
  make_wait(stream_, event);
}

void Stream::synchronize() const {
  checked(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize", gpu_.ordinal());
}

void make_wait(CUstream_st* stream, const Event& event) {
  checked(driver().cuStreamWaitEvent(stream, event.handle(), CU_EVENT_WAIT_DEFAULT),
          "cuStreamWaitEvent", -1);
}

bool is_capturing(CUstream_st* stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver().cuStreamIsCapturing(stream, &status);
  // The legacy stream gives this answer while a stream that waits for it is captured.
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
  checked(result, "cuStreamIsCapturing", -1);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace tutti::cuda
