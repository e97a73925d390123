#pragma once
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "cuda/gpu.h"

struct CUevent_st;
struct CUstream_st;

namespace tutti::cuda {

/// A point in a stream's work. The host asks whether the work has passed it, or other streams wait
/// for it. It takes no time stamps, which makes it cheap. Only one thread at a time may use it.
class Event {
 public:
  explicit Event(const Gpu& gpu);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Puts the event behind all work that was enqueued in `stream`, which may be of any kind. Needs
  /// the current context. Never blocks. If it is recorded again, it only means the later point.
  void record(CUstream_st* stream) const;
  /// Whether all work before the event is done. If so, the calling thread sees its results. An
  /// event that was never recorded is done. Never blocks.
  bool is_done() const;
  /// Blocks until `is_done`, without a limit. For tests and tools.
  void wait() const;

  CUevent_st* handle() const { return event_; }

 private:
  const Gpu& gpu_;
  CUevent_st* event_ = nullptr;
};

/// Keeps events for further use, because making one takes a microsecond or more. It holds as many
/// as were ever in use at the same time, and must outlive the events that it gave. Thread-safe.
class EventPool {
 public:
  explicit EventPool(const Gpu& gpu) : gpu_(gpu) {}

  struct GiveBack {
    EventPool* pool = nullptr;
    void operator()(Event* event) const noexcept { pool->give_back(event); }
  };
  /// An event that goes back to its pool when it is destroyed. The work before it need not be done,
  /// because its next owner records it again before anything else.
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
