#include "kvstore/single_store.h"

#include "base/completion.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "base/own_tensor.h"
#include "kvstore/checks.h"
#include "kvstore/local_places.h"
#include "kvstore/local_values.h"
#include "kvstore/methods.h"

namespace tutti {
namespace {

class SingleStore : public Backend {
 public:
  SingleStore(const std::string& type, const Options& options)
      : Backend({.type = type,
                 .methods = {Method::pushpull, Method::broadcast, Method::reduce_scatter,
                             Method::allgather, Method::all_to_all,
                             Method::set_gradient_compression, Method::send, Method::recv},
                 .sums_repeated_keys = false,
                 .takes_gpu_tensors = true,
                 .may_only_contribute = true}),
        places_(options) {}

  Pending submit(const MethodCall& call) override {
    if (const auto calls = gpu_calls()) calls->poll();
    const base::Lock lock(mutex_);
    if (closed_) refuse_closed(name(call));
    return exchange_alone(call, places_, counters_);
  }
  /// Nothing travels, so no setting changes anything.
  void configure(const SettingCall& setting) override {
    static_cast<void>(wire_format(setting.value, traits().type));
    if (setting.after_tensors) refuse_late(setting, "");
  }
  void close() override {
    if (const auto calls = shut()) calls->close();
  }
  void end() override {
    const auto calls = fork_.is_in_child() ? nullptr : gpu_calls();
    if (calls == nullptr) return;
    base::abort_in_callback();
    calls->close();
  }
  void barrier() override {}
  int join() override { return 0; }
  Tensor allocate(const Shape& shape, DType dtype) override {
    return base::own_tensor(shape, dtype);
  }
  Tensor copy_of(const Tensor& tensor) override {
    const base::Lock lock(mutex_);
    return places_.copy_of(tensor);
  }
  Counters counters() const override { return counters_.read(); }

 private:
  std::shared_ptr<GpuCalls> gpu_calls() const {
    const base::Lock lock(mutex_);
    return places_.gpu_calls();
  }

  /// Both happen under one lock, so that no call comes between them.
  std::shared_ptr<GpuCalls> shut() {
    const base::Lock lock(mutex_);
    if (places_.gpu_calls() != nullptr) base::refuse_in_callback("close()");
    closed_ = true;
    return places_.gpu_calls();
  }

  const base::ForkGuard fork_;
  mutable base::Mutex mutex_{3};
  LocalPlaces places_ TUTTI_GUARDED_BY(mutex_);
  LocalCounters counters_;
  /// KVStore refuses calls that come after `close`. A call may still have passed that check before.
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<Backend> make_single_backend(const std::string& type, const Options& options) {
  return std::make_unique<SingleStore>(type, options);
}

}  // namespace tutti
