#include "tutti/kvstore.h"

#include <utility>

#include "base/failure.h"
#include "kvstore/backend.h"
#include "kvstore/checks.h"
#include "kvstore/methods.h"
#include "kvstore/overlap.h"

namespace tutti {
namespace {

/// What is not reduced: one tensor a key.
std::vector<Values> firsts(const std::vector<Values>& values) {
  std::vector<Values> result;
  result.reserve(values.size());
  for (const Values& each : values) result.emplace_back(each[0]);
  return result;
}

}  // namespace

KVStore::KVStore(std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)), key_kind_(std::make_unique<KeyKind>()) {}

KVStore::~KVStore() = default;

const std::string& KVStore::type() const {
  return backend_->traits().type;
}

int KVStore::rank() const {
  return backend_->traits().rank;
}

int KVStore::num_workers() const {
  return backend_->traits().size;
}

Pending KVStore::submit(Request&& request) {
  const Traits& traits = backend_->traits();
  require(traits, request.method);
  check(request, traits);
  key_kind_->admit(request.keys);
  if (request.method == Method::broadcast) {
    request.ins = request.root == traits.rank ? firsts(request.outs)
                                              : std::vector<Values>(request.keys.size());
  }
  if (request.method == Method::allgather) request.ins = firsts(request.ins);
  if (!request.ins.empty() && !request.outs.empty()) {
    detach_overlapping_inputs(request.ins, request.outs, places_of_outputs(request, traits));
  }
  return backend_->submit(std::move(request));
}

Pending KVStore::pushpull(const Key& key, const Values& ins, const Values& outs,
                          CallOptions options) {
  return submit({.method = Method::pushpull,
                 .keys = {key},
                 .ins = {ins},
                 .outs = {outs},
                 .options = options});
}

Pending KVStore::pushpull(const std::vector<Key>& keys, const std::vector<Values>& ins,
                          const std::vector<Values>& outs, CallOptions options) {
  return submit(
      {.method = Method::pushpull, .keys = keys, .ins = ins, .outs = outs, .options = options});
}

Pending KVStore::broadcast(const Key& key, const Values& values, int root_rank,
                           CallOptions options) {
  return broadcast(std::vector<Key>(1, key), std::vector<Values>(1, values), root_rank, options);
}

Pending KVStore::broadcast(const std::vector<Key>& keys, const std::vector<Values>& values,
                           int root_rank, CallOptions options) {
  options.op = ReduceOp::sum;
  return submit({.method = Method::broadcast,
                 .keys = keys,
                 .outs = values,
                 .root = root_rank,
                 .options = options});
}

Pending KVStore::reduce_scatter(const Key& key, const Values& ins, const Values& outs,
                                CallOptions options) {
  return reduce_scatter(std::vector<Key>(1, key), std::vector<Values>(1, ins),
                        std::vector<Values>(1, outs), options);
}

Pending KVStore::reduce_scatter(const std::vector<Key>& keys, const std::vector<Values>& ins,
                                const std::vector<Values>& outs, CallOptions options) {
  return submit({.method = Method::reduce_scatter,
                 .keys = keys,
                 .ins = ins,
                 .outs = outs,
                 .options = options});
}

Pending KVStore::allgather(const Key& key, const Values& ins, const Values& outs,
                           CallOptions options) {
  return allgather(std::vector<Key>(1, key), std::vector<Values>(1, ins),
                   std::vector<Values>(1, outs), options);
}

Pending KVStore::allgather(const std::vector<Key>& keys, const std::vector<Values>& ins,
                           const std::vector<Values>& outs, CallOptions options) {
  options.op = ReduceOp::sum;
  return submit(
      {.method = Method::allgather, .keys = keys, .ins = ins, .outs = outs, .options = options});
}

void KVStore::init(const std::vector<Key>& keys, const std::vector<Values>& values) {
  submit({.method = Method::init, .keys = keys, .ins = values}).wait();
}

Pending KVStore::push(const std::vector<Key>& keys, const std::vector<Values>& values,
                      CallOptions options) {
  return submit({.method = Method::push, .keys = keys, .ins = values, .options = options});
}

Pending KVStore::pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
                      CallOptions options) {
  options.op = ReduceOp::sum;
  return submit({.method = Method::pull, .keys = keys, .outs = outs, .options = options});
}

void KVStore::row_sparse_pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
                              const std::vector<Tensor>& row_ids) {
  submit({.method = Method::row_sparse_pull, .keys = keys, .outs = outs, .row_ids = row_ids})
      .wait();
}

void KVStore::configure(const Setting& setting) {
  require(backend_->traits(), setting.method);
  backend_->configure(setting);
}

void KVStore::set_optimizer(std::string_view name) {
  configure({.method = Method::set_optimizer, .value = std::string(name)});
}

void KVStore::save_optimizer_states(const std::string& path, bool dump_optimizer) {
  configure(
      {.method = Method::save_optimizer_states, .value = path, .dump_optimizer = dump_optimizer});
}

void KVStore::load_optimizer_states(const std::string& path) {
  configure({.method = Method::load_optimizer_states, .value = path});
}

void KVStore::set_gradient_compression(std::string_view kind) {
  configure({.method = Method::set_gradient_compression, .value = std::string(kind)});
}

void KVStore::barrier() {
  backend_->barrier();
}

int KVStore::join() {
  return backend_->join();
}

Tensor KVStore::allocate(const Shape& shape, DType dtype) {
  return backend_->allocate(shape, dtype);
}

Counters KVStore::counters() const {
  return backend_->counters();
}

}  // namespace tutti
