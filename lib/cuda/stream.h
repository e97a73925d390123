#pragma once
#include <cstddef>

#include "cuda/event.h"
#include "cuda/gpu.h"

struct CUstream_st;

namespace tutti::cuda {

/// A queue of work for the GPU, which does the work in order. It is a non-blocking stream: it does
/// not wait for CUDA's legacy default stream, nor does that stream wait for it. The work is done
/// later. The caller keeps the memory concerned until an event behind the work is done. All
/// functions except the destructor need the context to be current. Any thread may use it, but only
/// one at a time.
class Stream {
 public:
  explicit Stream(const Gpu& gpu);
  /// Work that is under way goes on.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Enqueue copies of `bytes`. They return at once if the host memory is pinned. Otherwise they
  /// may block until the copy is done.
  void copy_to_device(void* device, const void* host, std::size_t bytes) const;
  void copy_to_host(void* host, const void* device, std::size_t bytes) const;
  /// Both addresses are on this device.
  void copy(void* to, const void* from, std::size_t bytes) const;

  /// Makes later work of this stream wait for the last record of the event. An event that was not
  /// recorded yet orders nothing. Never blocks.
  void wait_for(const Event& event) const;

  /// Blocks until all work is done, without a limit. For tests and tools.
  void synchronize() const;

  CUstream_st* handle() const { return stream_; }

 private:
  const Gpu& gpu_;
  CUstream_st* stream_ = nullptr;
};

/// Does the same as `Stream::wait_for`, for a stream of the program. The stream may be of any kind.
/// Its context must be current.
void make_wait(CUstream_st* stream, const Event& event);

/// Whether the program captures this stream's work as a graph. Then tutti may enqueue nothing in
/// it.
bool is_capturing(CUstream_st* stream);

}  // namespace tutti::cuda
