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

/// Where a store of one process works: on the host and, from the first tensor there on, on one GPU.
/// One thread at a time.
class LocalPlaces {
 public:
  /// With `options.gpu` it takes that GPU at once. Throws as cuda::Gpu.
  explicit LocalPlaces(const Options& options);

  /// One method call. If it has tensors on the GPU, the GPU's context is current on the thread
  /// meanwhile, and the work that the call enqueues comes after all work in the tensors' streams.
  class Call {
   public:
    /// Throws `invalid_argument` for tensors that the GPU cannot work on.
    Call(LocalPlaces& places, const MethodCall& call);
    /// Without `end` the call has failed: waits until the GPU has done its part. Where that takes
    /// too long, the tensors are kept until then.
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    LocalMemory& memory_of(const Tensor& tensor) const;
    /// A value of the store's that the call replaces: enqueued work may still read it.
    void keep(const Tensor& replaced);
    /// In the handler of an error of this call: throws it, with the call's name if it is one that
    /// the GPU reported.
    [[noreturn]] void rethrow(const Error& error);
    /// Done at once, or when the GPU has done its work.
    Pending end();

   private:
    void collect(const Key& key, const Values& values);
    void enter();
    /// Also the host memory that the GPU uses for the call.
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

  /// A copy of a tensor on the GPU. Blocks until it is there.
  Tensor copy_of(const Tensor& tensor);
  /// Null while there is no GPU.
  const std::shared_ptr<GpuCalls>& gpu_calls() const { return calls_; }

 private:
  /// The GPU, which is taken now if it is not yet. Throws if the tensor is not there.
  GpuMemory& gpu_for(const Tensor& tensor);
  void take_gpu(int ordinal);

  const std::optional<int> chosen_;
  const std::chrono::milliseconds limit_;
  std::shared_ptr<GpuMemory> gpu_;
  std::shared_ptr<GpuCalls> calls_;
};

}  // namespace tutti
