// Streams and events.
#include "calls.h"
#include "unseen.h"

using namespace standin;

namespace {

using Lock = std::unique_lock<std::mutex>;

}  // namespace

extern "C" {

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
  found->second->came.notify_one();
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

}  // extern "C"
