#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "cuda/gpu.h"
#include "cuda/nccl_library.h"

struct CUstream_st;
struct ncclComm;

namespace tutti::cuda {

/// The id by which the ranks of a communicator find each other. Rank 0 makes one and sends it to
/// all.
using NcclId = std::array<char, 128>;
NcclId make_nccl_id(const NcclLibrary& library);

/// A communicator of NCCL: ranks that exchange device memory. NCCL needs the same order of launches
/// on all ranks. A launch is one call, or all calls of `grouped`. Calls enqueue work in a stream,
/// and need the context to be current. They block only when NCCL connects ranks for the first time.
/// Any thread may use it, but only one at a time.
///
/// If a rank is lost, work hangs. Only `async_error` tells of that, and not of every loss. So the
/// owner has a deadline, and calls `abort` when it has passed.
class NcclComm {
 public:
  /// Blocks until all ranks have come. Call it on a thread of its own, which may hang.
  NcclComm(const NcclLibrary& library, const Gpu& gpu, const NcclId& id, int rank, int size);
  /// Blocks until the work is done, unless `abort` was called.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  void send(const void* data, std::size_t bytes, int peer, CUstream_st* stream);
  void receive(void* data, std::size_t bytes, int peer, CUstream_st* stream);
  /// `all` gets `bytes` of every rank, by rank. `mine` may lie in it, at this rank's place.
  void all_gather(const void* mine, void* all, std::size_t bytes, CUstream_st* stream);
  /// Makes one launch of the calls in `calls`. Sends and receives among them run at the same time.
  void grouped(const std::function<void()>& calls);

  /// The error that struck work of this communicator, if there is one. Never blocks.
  std::optional<std::string> async_error() const;

  /// Ends the communicator and the work that hangs in it, on a thread of its own, because that can
  /// hang, too. Blocks for at most `limit`. Returns false if it did not end in time; then its
  /// thread and memory stay until the process ends. No other call may follow.
  bool abort(std::chrono::milliseconds limit);

 private:
  void check(int result, const char* call) const;

  const NcclLibrary library_;
  const Gpu& gpu_;
  const int rank_;
  const int size_;
  ncclComm* comm_ = nullptr;
};

}  // namespace tutti::cuda
