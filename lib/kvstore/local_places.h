#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/backend.h"
#include "kvstore/gpu_calls.h"
#include "kvstore/gpu_memory.h"
#include "kvstore/local_memory.h"
#include "tutti/options.h"

namespace tutti {

/// The places where a store of one process works: the host, and one GPU from the first call with a
/// tensor there. Only one thread may use it at a time.
class LocalPlaces {
 public:
  /// Takes the GPU at once if `options.gpu` names one. Throws the same errors as cuda::Gpu.
  explicit LocalPlaces(const Options& options);

  /// One method call. If it has tensors on the GPU, the thread has the GPU's context as its current
  /// one until the object is destroyed. The work that the call enqueues waits for all work in the
  /// tensors' streams.
  class Call {
   public:
    /// Throws `invalid_argument` if the GPU cannot work on one of the tensors.
    Call(LocalPlaces& places, const MethodCall& call);
    /// If `end` was not called, the call has failed. Then this waits until the GPU has done its
    /// work for the call. If that takes too long, the tensors are kept until the work is done.
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    LocalMemory& memory_of(const Tensor& tensor) const;
    /// Keeps a stored value that the call replaces, because enqueued work may still read it.
    void keep(const Tensor& replaced);
    /// Call this in a handler of an error of this call. It throws the error again. If the GPU
    /// reported the error, it adds the call's name.
    [[noreturn]] void rethrow(const Error& error);
    /// Returns a Pending that is done at once, or when the GPU has done its work.
    Pending end();

   private:
    void collect(const Key& key, const Values& values);
    void enter();
    /// All kept tensors, and the host memory that the GPU uses for the call.
    std::vector<Tensor> all_kept() const;
    void let_go();
    Error named(const Error& error, const Key& key) const;

    LocalPlaces& places_;
    const MethodCall& call_;
    const Key* key_ = nullptr;  ///< the first with tensors on the GPU
    std::vector<Tensor> kept_;
    bool is_late_ = false;  ///< a wait for the GPU has ended in a time-out
    std::optional<cuda::ContextGuard> context_;
    std::optional<cuda::RelaxedCapture> relaxed_;
  };

  /// Returns a copy of a tensor on the GPU. Blocks until the copy is complete.
  Tensor copy_of(const Tensor& tensor);
  /// Null until the store takes a GPU.
  const std::shared_ptr<GpuCalls>& gpu_calls() const { return calls_; }

 private:
  /// The GPU. Takes it now if the store has none yet. Throws if the tensor is not on it.
  GpuMemory& gpu_for(const Tensor& tensor);
  void take_gpu(int ordinal);

  const std::optional<int> chosen_;
  const std::chrono::milliseconds limit_;
  std::shared_ptr<GpuMemory> gpu_;
  std::shared_ptr<GpuCalls> calls_;
};

}  // namespace tutti
