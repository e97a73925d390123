#pragma once
#include <cstddef>

#include "cuda/event.h"
#include "cuda/gpu.h"

struct CUstream_st;

namespace tutti::cuda {

/// A queue of work for the GPU, which does the work in order. It is a non-blocking stream: it does
/// not wait for CUDA's legacy default stream, nor that stream for it. The work is done later; the
/// caller keeps the memory concerned until an event behind it is done. All functions but the
/// destructor need the context to be current. Any thread may use it, one at a time.
class Stream {
 public:
  explicit Stream(const Gpu& gpu);
  /// Work under way goes on.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Enqueue copies of `bytes`. They return at once if the host memory is pinned; else they may
  /// block until the copy is done.
  void copy_to_device(void* device, const void* host, std::size_t bytes) const;
  void copy_to_host(void* host, const void* device, std::size_t bytes) const;
  /// Both on this device.
  void copy(void* to, const void* from, std::size_t bytes) const;

  /// Later work of this stream waits for the event's last record until now: an event that was not
  /// recorded yet orders nothing. Never blocks.
  void wait_for(const Event& event) const;

  /// Blocks until all work is done, without a limit: for tests and tools.
  void synchronize() const;

  CUstream_st* handle() const { return stream_; }

 private:
  const Gpu& gpu_;
  CUstream_st* stream_ = nullptr;
};

/// As `Stream::wait_for`, for a stream of the program: of any kind, and in its context, which must
/// be current.
void make_wait(CUstream_st* stream, const Event& event);

/// The program captures this stream's work as a graph, so nothing of ours may be enqueued.
bool is_capturing(CUstream_st* stream);

}  // namespace tutti::cuda
