// lib/cuda in a build without CUDA. There is no GPU, so most methods are never called. Destructors
// have empty bodies and are not defaulted, because clang-tidy would want a defaulted one in the
// header; with CUDA they do something.
#include "cuda/event.h"
#include "cuda/facts.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/nccl_comm.h"
#include "cuda/nccl_library.h"
#include "cuda/stream.h"
#include "tutti/error.h"

namespace tutti::cuda {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::unsupported,
              "this tutti was built without CUDA (meson option cuda); GPUs need it");
}

}  // namespace

struct NcclFunctions {};

bool is_built() {
  return false;
}
std::vector<Fact> facts() {
  return {{"GPUs", "built without CUDA"}};
}
std::vector<GpuName> list_gpus() {
  refuse();
}
std::optional<int> current_gpu() {
  return std::nullopt;
}

Gpu::Gpu(int) {
  refuse();
}
Gpu::~Gpu() {}
std::size_t Gpu::free_bytes() const {
  return 0;
}
ContextGuard::ContextGuard(const Gpu& gpu) : ordinal_(gpu.ordinal()) {}
ContextGuard::~ContextGuard() {}
void set_current(const Gpu&) {}
void relax_capture_mode() {}
RelaxedCapture::RelaxedCapture() = default;
RelaxedCapture::~RelaxedCapture() {
  before_ = 0;
}

Event::Event(const Gpu& gpu) : gpu_(gpu) {}
Event::~Event() {}
void Event::record(CUstream_st*) const {}
bool Event::is_done() const {
  return true;
}
void Event::wait() const {}
EventPool::Pooled EventPool::take() {
  refuse();
}
void EventPool::give_back(Event*) noexcept {}

Stream::Stream(const Gpu& gpu) : gpu_(gpu) {}
Stream::~Stream() {}
void Stream::copy_to_device(void*, const void*, std::size_t) const {}
void Stream::copy_to_host(void*, const void*, std::size_t) const {}
void Stream::copy(void*, const void*, std::size_t) const {}
void Stream::wait_for(const Event&) const {}
void Stream::synchronize() const {
  set_current(gpu_);
}
void make_wait(CUstream_st*, const Event&) {}
bool is_capturing(CUstream_st*) {
  return false;
}

DeviceMemory::DeviceMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu), size_(bytes) {}
DeviceMemory::~DeviceMemory() {}
PinnedMemory::PinnedMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu), size_(bytes) {}
PinnedMemory::~PinnedMemory() {}
Registration::Registration(const Gpu& gpu, std::span<std::byte> memory)
    : gpu_(gpu), memory_(memory) {}
Registration::~Registration() {}
Location locate(const void*) {
  return {};
}

Kernels::Kernels(const Gpu& gpu) : gpu_(gpu) {}
Kernels::~Kernels() {}
void Kernels::reduce(CUstream_st*, const reduce::Kernel&, std::span<const void* const>, void*,
                     std::size_t) const {}

NcclLibrary::NcclLibrary(const std::string&) {
  refuse();
}
std::string NcclLibrary::version_text() const {
  return {};
}

NcclId make_nccl_id(const NcclLibrary&) {
  refuse();
}
NcclComm::NcclComm(const NcclLibrary& library, const Gpu& gpu, const NcclId&, int rank, int size)
    : library_(library), gpu_(gpu), rank_(rank), size_(size) {}
NcclComm::~NcclComm() {}
void NcclComm::send(const void*, std::size_t, int, CUstream_st*) {}
void NcclComm::receive(void*, std::size_t, int, CUstream_st*) {}
void NcclComm::all_gather(const void*, void*, std::size_t, CUstream_st*) {}
void NcclComm::grouped(const std::function<void()>&) {}
std::optional<std::string> NcclComm::async_error() const {
  return std::nullopt;
}
bool NcclComm::abort(std::chrono::milliseconds) {
  return true;
}

}  // namespace tutti::cuda
