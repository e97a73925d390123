#pragma once
#include "gpu.h"

#include <cstddef>
#include <optional>

/// The code that the driver's functions share: how each call begins, and how it finds its objects.
/// None of these is called in an `Unseen` scope, or with `World::mutex`.
namespace standin {

/// The calling thread's contexts, the current one last.
std::vector<Device*>& contexts();
Device* current();
CUstreamCaptureMode& capture_mode();

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
Call enter(const char* function, unsigned needs);

/// The stream of a handle; null if there is none or it is of another context than the current one.
Stream* find(CUstream handle);
Event* find(CUevent handle);
bool is_capturing(const Stream& stream);
/// Gives the stream work, unless it is captured.
void give(Stream& stream, const Call& call, std::optional<Engine> engine, std::size_t bytes,
          Stream::Work work);

inline void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace standin
