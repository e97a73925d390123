#pragma once
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "cuda/gpu.h"

struct CUevent_st;
struct CUstream_st;

namespace tutti::cuda {

/// A point in a stream's work, which the host asks for or other streams wait for. It takes no time
/// stamps, which makes it cheap. One thread at a time.
class Event {
 public:
  explicit Event(const Gpu& gpu);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Puts the event behind all work that was enqueued in `stream`, of any kind. Needs the current
  /// context. Never blocks. Recorded again, it means the later point alone.
  void record(CUstream_st* stream) const;
  /// All work before the event is done, and the calling thread sees its results. An event that was
  /// never recorded is done. Never blocks.
  bool is_done() const;
  /// Blocks until `is_done`, without a limit: for tests and tools.
  void wait() const;

  CUevent_st* handle() const { return event_; }

 private:
  const Gpu& gpu_;
  CUevent_st* event_ = nullptr;
};

/// Keeps events for reuse, because making one takes a microsecond or more. Holds as many as were
/// ever in use at once. Must outlive the events that it gave. Thread-safe.
class EventPool {
 public:
  explicit EventPool(const Gpu& gpu) : gpu_(gpu) {}

  struct GiveBack {
    EventPool* pool = nullptr;
    void operator()(Event* event) const noexcept { pool->give_back(event); }
  };
  /// An event that goes back to its pool when it is destroyed. The work behind it need not be done:
  /// to record it again is all that its next owner does first.
  using Pooled = std::unique_ptr<Event, GiveBack>;

  Pooled take() TUTTI_EXCLUDES(mutex_);

 private:
  void give_back(Event* event) noexcept TUTTI_EXCLUDES(mutex_);

  const Gpu& gpu_;
  base::Mutex mutex_{5};
  std::vector<std::unique_ptr<Event>> spares_ TUTTI_GUARDED_BY(mutex_);
  std::size_t made_ TUTTI_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::cuda
