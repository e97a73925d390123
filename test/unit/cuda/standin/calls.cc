#include "calls.h"

#include <atomic>

#include "unseen.h"

namespace standin {
namespace {

using Lock = std::unique_lock<std::mutex>;

thread_local Stream* own_stream = nullptr;  // CU_STREAM_PER_THREAD

std::atomic<bool> exiting = false;
[[gnu::destructor]] void leave() {
  exiting = true;
}

CUresult planned_error(const Fault& fault) {
  const auto error = static_cast<CUresult>(fault.error);
  const bool is_sticky = fault.error >= CUDA_ERROR_ILLEGAL_ADDRESS && fault.error < 720;
  if (is_sticky && current() != nullptr) current()->sticky = error;
  return error;
}

}  // namespace

std::vector<Device*>& contexts() {
  thread_local std::vector<Device*> all;
  return all;
}

Device* current() {
  return contexts().empty() ? nullptr : contexts().back();
}

CUstreamCaptureMode& capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
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
      capture_mode() != CU_STREAM_CAPTURE_MODE_RELAXED) {
    world().capture_broken = true;
    return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {}};
  }
  return {{}, fault};
}

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

}  // namespace standin
