#pragma once
#include <cstdint>
#include <deque>

#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace tutti::collective {

/// A stream of one GPU. By its marks the host asks how far the work has come. One thread at a time
/// uses it, with the GPU's context current. Nothing blocks. All functions throw `internal` if CUDA
/// reports an error.
class DeviceQueue {
 public:
  using Mark = std::uint64_t;

  /// The GPU and the pool outlive this object.
  DeviceQueue(const cuda::Gpu& gpu, cuda::EventPool& events) : events_(events), stream_(gpu) {}

  const cuda::Stream& stream() const { return stream_; }
  /// Returns a mark for all work that has been enqueued. Later marks are not smaller.
  Mark mark();
  /// Whether all work that the mark stands for is over.
  bool is_over(Mark mark);
  /// Whether all work is over that any mark stands for.
  bool is_over() { return is_over(marked_); }
  /// Makes later work of this queue wait, on the GPU, for all work that has been enqueued in the
  /// other queue.
  void follow(const DeviceQueue& before) const;

 private:
  cuda::EventPool& events_;
  cuda::Stream stream_;
  Mark marked_ = 0;
  Mark over_ = 0;
  std::deque<cuda::EventPool::Pooled> under_way_;  ///< the events of the marks above `over_`
};

}  // namespace tutti::collective
