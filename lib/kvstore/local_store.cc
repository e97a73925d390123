#include "kvstore/local_store.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/completion.h"
#include "base/fork_guard.h"
#include "base/heap.h"
#include "base/keep.h"
#include "base/mutex.h"
#include "base/own_tensor.h"
#include "base/printable.h"
#include "kvstore/checks.h"
#include "kvstore/key_calls.h"
#include "kvstore/local_optimizer.h"
#include "kvstore/local_places.h"
#include "kvstore/local_values.h"
#include "kvstore/methods.h"
#include "kvstore/rows.h"

namespace tutti {
namespace {

/// Does the same as the other check. Also checks that the tensors have the shape and dtype of the
/// stored value, and are on its device.
void check_alike(const MethodCall& call, const Key& key, const KeyCall& key_call,
                 const Tensor* stored) {
  if (stored != nullptr && !are_together(key_call.any(), *stored)) {
    refuse(call, key,
           fmt::format("the tensor is on {}, but the key's value is on {}; use the device of the "
                       "value, or broadcast a value on the other device first",
                       name(key_call.any().device()), name(stored->device())));
  }
  if (stored != nullptr && !alike(key_call.any(), *stored)) {
    refuse(call, key,
           fmt::format("the tensor is {}, but the key was initialised as {}",
                       describe(key_call.any()), describe(*stored)));
  }
  tutti::check_alike(call, key, key_call);
}

class LocalStore : public Backend {
 public:
  LocalStore(const std::string& type, Takes takes, const Options& options)
      : Backend(
            {.type = type,
             .methods = {Method::init, Method::push, Method::pull, Method::pushpull,
                         Method::broadcast, Method::reduce_scatter, Method::allgather,
                         Method::all_to_all, Method::set_optimizer, Method::save_optimizer_states,
                         Method::load_optimizer_states, Method::set_gradient_compression,
                         Method::row_sparse_pull, Method::num_dead_node},
             .sums_repeated_keys = true,
             .takes_gpu_tensors = takes != Takes::cpu,
             .takes_several_of_a_gpu = takes != Takes::cpu,
             .takes_cpu_tensors = takes != Takes::gpu}),
        places_(takes == Takes::cpu ? Options{} : options) {}

  Pending submit(const MethodCall& call) override;
  void configure(const SettingCall& setting) override;
  void close() override;
  void end() override;
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
  using Here = LocalPlaces::Call;
  using Calls = std::map<Key, KeyCall>;

  std::shared_ptr<GpuCalls> gpu_calls() const {
    const base::Lock lock(mutex_);
    return places_.gpu_calls();
  }
  std::shared_ptr<GpuCalls> shut();
  void check_open(std::string_view call) const TUTTI_REQUIRES(mutex_) {
    if (closed_) refuse_closed(call);
  }
  void run(const MethodCall& call, Here& here) TUTTI_REQUIRES(mutex_);
  void initialise(const MethodCall& call, Here& here) TUTTI_REQUIRES(mutex_);
  void abandon();
  void compress(const SettingCall& setting) const;
  void check_values(const MethodCall& call, const Calls& calls) TUTTI_REQUIRES(mutex_);
  void push(const Key& key, const KeyCall& key_call, ReduceOp op, Here& here)
      TUTTI_REQUIRES(mutex_);
  void replace(const Key& key, const KeyCall& key_call, ReduceOp op, Here& here)
      TUTTI_REQUIRES(mutex_);
  void pull(Method method, const Key& key, const KeyCall& key_call, LocalMemory& memory)
      TUTTI_REQUIRES(mutex_);
  void pull_rows(const MethodCall& call, const Here& here) TUTTI_REQUIRES(mutex_);
  const Tensor* find(const Key& key) const TUTTI_REQUIRES(mutex_);

  const base::ForkGuard fork_;
  mutable base::Mutex mutex_{3};
  LocalPlaces places_ TUTTI_GUARDED_BY(mutex_);
  std::map<Key, Tensor> values_ TUTTI_GUARDED_BY(mutex_);
  LocalOptimizer optimizer_ TUTTI_GUARDED_BY(mutex_);
  LocalCounters counters_;
  /// KVStore refuses calls that come after `close`. A call may still have passed that check before.
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
};

void LocalStore::close() {
  const auto calls = shut();
  if (calls != nullptr && !calls->close()) return abandon();
  std::size_t keys = 0;
  {
    const base::Lock lock(mutex_);
    keys = values_.size();
    values_.clear();
    optimizer_ = {};
  }
  base::return_memory_of(keys);
}

/// Both happen under one lock, so that no call comes between them.
std::shared_ptr<GpuCalls> LocalStore::shut() {
  const base::Lock lock(mutex_);
  if (places_.gpu_calls() != nullptr) base::refuse_in_callback("close()");
  closed_ = true;
  return places_.gpu_calls();
}

/// The GPU may still use the values, so their memory is never freed.
void LocalStore::abandon() {
  const base::Lock lock(mutex_);
  base::keep_for_good(std::make_shared<std::map<Key, Tensor>>(std::exchange(values_, {})));
}

void LocalStore::end() {
  const auto calls = fork_.is_in_child() ? nullptr : gpu_calls();
  if (calls == nullptr) return;
  base::abort_in_callback();
  if (!calls->close()) abandon();
}

const Tensor* LocalStore::find(const Key& key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

/// Stores the values of all keys. If one value is refused, stores none. A broadcast replaces a
/// stored value, as in a collective store; init does not.
void LocalStore::initialise(const MethodCall& call, Here& here) {
  std::map<Key, Tensor> fresh;
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const Key& key = call.keys[i];
    const Tensor& value = call.ins[i][0];
    const Tensor* const stored = find(key);
    const bool replaces = call.method == Method::broadcast;
    if (replaces && fresh.contains(key)) {
      refuse(call, key, "it stands twice in one call; name it once");
    }
    if (!replaces && (stored != nullptr || fresh.contains(key))) {
      refuse(call, key,
             fmt::format(
                 "it is initialised already, as {}; push, pushpull and broadcast change its value",
                 describe(stored != nullptr ? *stored : fresh.at(key))));
    }
    LocalMemory& memory = here.memory_of(value);
    const Tensor own = memory.own(value.shape(), value.dtype());
    memory.copy(value, own);
    fresh.emplace(key, own);
  }
  for (const auto& [key, value] : fresh) {
    if (const Tensor* const stored = find(key)) here.keep(*stored);
    if (!values_.insert_or_assign(key, value).second) optimizer_.take_value(key, value);
  }
}

void LocalStore::check_values(const MethodCall& call, const Calls& calls) {
  const Method method = call.method;
  const bool reduces = method == Method::push || method == Method::pushpull;
  for (const auto& [key, key_call] : calls) {
    const Tensor* const stored = find(key);
    // As in a collective store, an exchange may bring another shape each time.
    const bool only_reduces = method == Method::pushpull && !optimizer_.is_set();
    if (stored == nullptr && !only_reduces) {
      refuse(call, key, "it was never initialised; call init or broadcast for it first");
    }
    check_alike(call, key, key_call, only_reduces ? nullptr : stored);
    if (reduces) optimizer_.check(key, key_call.any());
  }
}

void LocalStore::push(const Key& key, const KeyCall& key_call, ReduceOp op, Here& here) {
  if (!optimizer_.is_set()) return replace(key, key_call, op, here);
  LocalMemory& memory = here.memory_of(key_call.any());
  const Tensor& stored = *find(key);
  optimizer_.update(key, key_call.ins, op, stored, memory);
  for (const Tensor& out : key_call.outs) memory.copy(stored, out);
  counters_.add(Method::push, stored.bytes());
}

/// If there is no stored value, only the outputs get the sum, as in a collective store. A stored
/// value takes the shape of the sum that replaces it.
void LocalStore::replace(const Key& key, const KeyCall& key_call, ReduceOp op, Here& here) {
  LocalMemory& memory = here.memory_of(key_call.any());
  const Tensor* stored = find(key);
  const Tensor& like = key_call.any();
  if (stored != nullptr && !(alike(like, *stored) && are_together(like, *stored))) {
    here.keep(*stored);
    stored = &(values_[key] = memory.own(like.shape(), like.dtype()));
  }
  const Tensor& merged = stored != nullptr ? *stored : key_call.outs.front();
  memory.merge(key_call.ins, merged, op);
  for (const Tensor& out : key_call.outs) memory.copy(merged, out);
  counters_.add(Method::push, merged.bytes());
}

void LocalStore::pull(Method method, const Key& key, const KeyCall& key_call, LocalMemory& memory) {
  const Tensor& stored = *find(key);
  for (const Tensor& out : key_call.outs) memory.copy(stored, out);
  if (method == Method::broadcast) counters_.add(method, stored.bytes());
}

void LocalStore::pull_rows(const MethodCall& call, const Here& here) {
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    rows.push_back(rows_of(call, i));
  }
  check_values(call, by_key(call));
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const Tensor& stored = *find(call.keys[i]);
    LocalMemory& memory = here.memory_of(stored);
    const Tensor whole = memory.on_host(stored);
    for (const Tensor& out : call.outs[i]) {
      const Tensor filled = is_on_gpu(out) ? base::own_tensor(out.shape(), out.dtype()) : out;
      copy_rows(rows[i], whole, filled);
      memory.put_back(filled, out);
    }
  }
}

Pending LocalStore::submit(const MethodCall& call) {
  if (const auto calls = gpu_calls()) calls->poll();
  const base::Lock lock(mutex_);
  check_open(name(call));
  if (call.method == Method::reduce_scatter || call.method == Method::allgather ||
      call.method == Method::all_to_all) {
    return exchange_alone(call, places_, counters_);
  }
  Here here(places_, call);
  try {
    run(call, here);
  } catch (const Error& error) {
    here.rethrow(error);
  }
  return here.end();
}

void LocalStore::run(const MethodCall& call, Here& here) {
  if (call.method == Method::row_sparse_pull) return pull_rows(call, here);
  if (call.method == Method::init || call.method == Method::broadcast) initialise(call, here);
  const Calls calls = by_key(call);
  check_values(call, calls);
  for (const auto& [key, key_call] : calls) {
    if (call.method == Method::push || call.method == Method::pushpull) {
      push(key, key_call, call.options.op, here);
    } else {
      pull(call.method, key, key_call, here.memory_of(key_call.any()));
    }
  }
  counters_.add_batch();
}

void LocalStore::configure(const SettingCall& setting) {
  if (setting.method == Method::set_gradient_compression) return compress(setting);
  const base::Lock lock(mutex_);
  check_open(name(setting.method));
  if (setting.method == Method::set_optimizer) {
    optimizer_.set(*setting.optimizer);
  } else if (setting.method == Method::save_optimizer_states) {
    optimizer_.save(setting.value, setting.dump_optimizer);
  } else {
    optimizer_.load(setting.value);
  }
}

void LocalStore::compress(const SettingCall& setting) const {
  if (setting.value == "none") {
    if (setting.after_tensors) refuse_late(setting, "");
    return;
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("gradient compression {} is not supported by store type '{}', which "
                          "sends nothing between processes; it knows 'none'",
                          base::quoted(setting.value), traits().type));
}

}  // namespace

std::unique_ptr<Backend> make_local_backend(const std::string& type, Takes takes,
                                            const Options& options) {
  return std::make_unique<LocalStore>(type, takes, options);
}

}  // namespace tutti
