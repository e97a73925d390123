#include "cuda/event.h"

#include "cuda/driver.h"

namespace tutti::cuda {

Event::Event(const Gpu& gpu) : gpu_(gpu) {
  const ContextGuard context(gpu);
  checked(driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate", gpu.ordinal());
}

Event::~Event() {
  logged(driver().cuEventDestroy(event_), "cuEventDestroy", gpu_.ordinal());
}

void Event::record(CUstream_st* stream) const {
  checked(driver().cuEventRecord(event_, stream), "cuEventRecord", gpu_.ordinal());
}

bool Event::is_done() const {
  const CUresult result = driver().cuEventQuery(event_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  checked(result, "cuEventQuery", gpu_.ordinal());
  return true;
}

void Event::wait() const {
  checked(driver().cuEventSynchronize(event_), "cuEventSynchronize", gpu_.ordinal());
}

EventPool::Pooled EventPool::take() {
  {
    const base::Lock lock(mutex_);
    if (!spares_.empty()) {
      Event* const spare = spares_.back().release();
      spares_.pop_back();
      return {spare, GiveBack{this}};
    }
    // The room is reserved here, so that `give_back` cannot fail.
    spares_.reserve(++made_);
  }
  return {std::make_unique<Event>(gpu_).release(), GiveBack{this}};
}

void EventPool::give_back(Event* event) noexcept {
  const base::Lock lock(mutex_);
  spares_.emplace_back(event);
}

}  // namespace tutti::cuda
