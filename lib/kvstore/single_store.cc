#include "kvstore/single_store.h"

#include "base/mutex.h"
#include "kvstore/checks.h"
#include "kvstore/local_values.h"
#include "kvstore/methods.h"

namespace tutti {
namespace {

class SingleStore : public Backend {
 public:
  explicit SingleStore(const std::string& type)
      : Backend({.type = type,
                 .methods = {Method::pushpull, Method::broadcast, Method::reduce_scatter,
                             Method::allgather, Method::set_gradient_compression}}) {}

  Pending submit(const MethodCall& call) override;
  /// Nothing travels, so no choice changes anything.
  void configure(const Setting& setting) override {
    static_cast<void>(wire_format(setting.value, traits().type));
    if (setting.after_tensors) refuse_late(setting, "");
  }
  void barrier() override {}
  int join() override { return 0; }
  Tensor allocate(const Shape& shape, DType dtype) override { return make_tensor(shape, dtype); }
  Counters counters() const override {
    const base::Lock lock(mutex_);
    return counters_;
  }

 private:
  void count(Method method, std::size_t bytes) TUTTI_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  Counters counters_ TUTTI_GUARDED_BY(mutex_);
};

void SingleStore::count(Method method, std::size_t bytes) {
  if (method == Method::broadcast) {
    ++counters_.tensors_broadcast;
    counters_.bytes_broadcast += bytes;
  } else if (method == Method::allgather) {
    ++counters_.tensors_gathered;
    counters_.bytes_gathered += bytes;
  } else {
    ++counters_.tensors_reduced;
    counters_.bytes_reduced += bytes;
  }
}

/// This rank's shard is the whole, and its devices' tensors are all that there is to reduce.
Pending SingleStore::submit(const MethodCall& call) {
  const bool reduces = call.method == Method::pushpull || call.method == Method::reduce_scatter;
  const base::Lock lock(mutex_);
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const Values& ins = call.ins[i];
    const Tensor& first = call.outs[i][0];
    if (reduces) merge({ins.begin(), ins.end()}, first, call.options.op);
    for (const Tensor& out : call.outs[i]) copy(reduces ? first : ins[0], out);
    count(call.method, first.bytes());
  }
  ++counters_.batches;
  return {};
}

}  // namespace

std::unique_ptr<Backend> make_single_backend(const std::string& type) {
  return std::make_unique<SingleStore>(type);
}

}  // namespace tutti
