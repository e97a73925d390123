#pragma once
#include <cstdint>
#include <deque>

#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/stream.h"

namespace tutti::collective {

/// A stream of one GPU, with marks by which the host asks how far its work has come. One thread at
/// a time, with the GPU's context current. Nothing blocks. All throw `internal` for what CUDA
/// reports.
class DeviceQueue {
 public:
  using Mark = std::uint64_t;

  /// The GPU and the pool outlive it.
  DeviceQueue(const cuda::Gpu& gpu, cuda::EventPool& events) : events_(events), stream_(gpu) {}

  const cuda::Stream& stream() const { return stream_; }
  /// Stands for all work that was enqueued so far. Later marks are not smaller.
  Mark mark();
  /// Whether all work that the mark stands for is over.
  bool is_over(Mark mark);
  /// Whether all work is over that any mark stands for.
  bool is_over() { return is_over(marked_); }
  /// Later work of this queue waits, on the GPU, for all that was enqueued in the other one so far.
  void follow(const DeviceQueue& before) const;

 private:
  cuda::EventPool& events_;
  cuda::Stream stream_;
  Mark marked_ = 0;
  Mark over_ = 0;
  std::deque<cuda::EventPool::Pooled> under_way_;  ///< of the marks above `over_`
};

}  // namespace tutti::collective
