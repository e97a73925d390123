#include "kvstore/single_store.h"

#include "base/mutex.h"
#include "base/own_tensor.h"
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

  Pending submit(const MethodCall& call) override {
    const base::Lock lock(mutex_);
    exchange_alone(call, counters_);
    return {};
  }
  /// Nothing travels, so no choice changes anything.
  void configure(const Setting& setting) override {
    static_cast<void>(wire_format(setting.value, traits().type));
    if (setting.after_tensors) refuse_late(setting, "");
  }
  void barrier() override {}
  int join() override { return 0; }
  Tensor allocate(const Shape& shape, DType dtype) override {
    return base::own_tensor(shape, dtype);
  }
  Counters counters() const override {
    const base::Lock lock(mutex_);
    return counters_;
  }

 private:
  mutable base::Mutex mutex_;  ///< level 5
  Counters counters_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Backend> make_single_backend(const std::string& type) {
  return std::make_unique<SingleStore>(type);
}

}  // namespace tutti
