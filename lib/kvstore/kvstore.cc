#include "tutti/kvstore.h"

#include <string>
#include <utility>

#include "base/completion.h"
#include "base/failure.h"
#include "kvstore/backend.h"
#include "kvstore/bound_call.h"
#include "kvstore/front_desk.h"
#include "kvstore/local_gpu.h"
#include "kvstore/methods.h"
#include "kvstore/peer_checks.h"
#include "optimizer/names.h"

namespace tutti {
Tensor Backend::copy_of(const Tensor& tensor) {
  throw Error(ErrorCode::unsupported, "an input on " + name(tensor.device()) +
                                          " overlaps another key's output, and a store of type '" +
                                          traits_.type +
                                          "' does not copy such an input; give the input memory "
                                          "of its own");
}

Pending Backend::pass(const PeerRequest& request) {
  require(traits_, request.method);
  base::report_broken("a store whose type has send and recv takes them");
}

KVStore::KVStore(std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)), front_desk_(std::make_unique<FrontDesk>()) {}

KVStore::~KVStore() {
  backend_->end();
}

void KVStore::close() {
  if (front_desk_->is_in_child()) return;
  backend_->close();
  front_desk_->close();
}

const std::string& KVStore::type() const {
  return backend_->traits().type;
}

int KVStore::rank() const {
  return backend_->traits().rank;
}

int KVStore::num_workers() const {
  return backend_->traits().size;
}

int KVStore::local_rank() const {
  return backend_->traits().local_rank;
}

int KVStore::local_size() const {
  return backend_->traits().local_size;
}

int KVStore::nodes() const {
  return backend_->traits().nodes;
}

Pending KVStore::submit(const MethodCall& call) {
  return front_desk_->submit(*backend_, call);
}

Pending KVStore::pushpull(const Key& key, const Values& ins, const Values& outs,
                          CallOptions options) {
  return submit({.method = Method::pushpull,
                 .keys = {&key, 1},
                 .ins = {&ins, 1},
                 .outs = {&outs, 1},
                 .options = options});
}

Pending KVStore::pushpull(const std::vector<Key>& keys, const std::vector<Values>& ins,
                          const std::vector<Values>& outs, CallOptions options) {
  return submit(
      {.method = Method::pushpull, .keys = keys, .ins = ins, .outs = outs, .options = options});
}

void KVStore::allreduce(const Key& key, const Values& ins, const Values& outs,
                        CallOptions options) {
  base::refuse_in_callback("allreduce()");
  submit({.method = Method::pushpull,
          .keys = {&key, 1},
          .ins = {&ins, 1},
          .outs = {&outs, 1},
          .options = options,
          .waits = true,
          .called = "allreduce"})
      .wait();
}

void KVStore::allreduce(const std::vector<Key>& keys, const std::vector<Values>& ins,
                        const std::vector<Values>& outs, CallOptions options) {
  base::refuse_in_callback("allreduce()");
  submit({.method = Method::pushpull,
          .keys = keys,
          .ins = ins,
          .outs = outs,
          .options = options,
          .waits = true,
          .called = "allreduce"})
      .wait();
}

Pending KVStore::allreduce_for(std::chrono::nanoseconds limit, const std::vector<Key>& keys,
                               const std::vector<Values>& ins, const std::vector<Values>& outs,
                               CallOptions options) {
  base::refuse_in_callback("allreduce_for()");
  Pending pending = submit({.method = Method::pushpull,
                            .keys = keys,
                            .ins = ins,
                            .outs = outs,
                            .options = options,
                            .waits = true,
                            .called = "allreduce"});
  pending.wait_for(limit);
  return pending;
}

Bound KVStore::bind(const Key& key, const Values& ins, const Values& outs, CallOptions options) {
  return bind(std::vector<Key>{key}, {ins}, {outs}, options);
}

Bound KVStore::bind(const std::vector<Key>& keys, const std::vector<Values>& ins,
                    const std::vector<Values>& outs, CallOptions options) {
  return Bound(std::make_shared<BoundCall>(front_desk_, backend_, keys, ins, outs, options));
}

Pending KVStore::broadcast(const Key& key, const Values& values, int root_rank,
                           CallOptions options) {
  options.op = ReduceOp::sum;
  return submit({.method = Method::broadcast,
                 .keys = {&key, 1},
                 .outs = {&values, 1},
                 .root = root_rank,
                 .options = options});
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
  return submit({.method = Method::reduce_scatter,
                 .keys = {&key, 1},
                 .ins = {&ins, 1},
                 .outs = {&outs, 1},
                 .options = options});
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
  options.op = ReduceOp::sum;
  return submit({.method = Method::allgather,
                 .keys = {&key, 1},
                 .ins = {&ins, 1},
                 .outs = {&outs, 1},
                 .options = options});
}

Pending KVStore::allgather(const std::vector<Key>& keys, const std::vector<Values>& ins,
                           const std::vector<Values>& outs, CallOptions options) {
  options.op = ReduceOp::sum;
  return submit(
      {.method = Method::allgather, .keys = keys, .ins = ins, .outs = outs, .options = options});
}

Pending KVStore::all_to_all(const Key& key, const Tensor& in, const Tensor& out,
                            const std::vector<std::size_t>& counts, CallOptions options) {
  options.op = ReduceOp::sum;
  const Values ins = in;
  const Values outs = out;
  return submit({.method = Method::all_to_all,
                 .keys = {&key, 1},
                 .ins = {&ins, 1},
                 .outs = {&outs, 1},
                 .counts = counts,
                 .options = options});
}

Pending KVStore::pass(const PeerRequest& request) {
  front_desk_->require_usable(name(request.method));
  require(backend_->traits(), request.method);
  check(request, backend_->traits());
  return backend_->pass(request);
}

Pending KVStore::send(const Tensor& tensor, int to_rank, int tag) {
  return pass({.method = Method::send, .tensor = tensor, .peer = to_rank, .tag = tag});
}

Pending KVStore::recv(const Tensor& tensor, int from_rank, int tag, int* source) {
  return pass(
      {.method = Method::recv, .tensor = tensor, .peer = from_rank, .tag = tag, .source = source});
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

void KVStore::configure(const SettingCall& setting) {
  front_desk_->require_usable(name(setting.method));
  require(backend_->traits(), setting.method);
  if (setting.optimizer != nullptr) optimizer::check_names(*setting.optimizer);
  SettingCall now = setting;
  now.after_tensors = front_desk_->has_moved_tensors();
  backend_->configure(now);
}

void KVStore::set_optimizer(const Optimizer& optimizer) {
  configure({.method = Method::set_optimizer, .value = optimizer.name, .optimizer = &optimizer});
}

void KVStore::save_optimizer_states(const std::string& path, bool dump_optimizer) {
  configure(
      {.method = Method::save_optimizer_states, .value = path, .dump_optimizer = dump_optimizer});
}

void KVStore::load_optimizer_states(const std::string& path) {
  configure({.method = Method::load_optimizer_states, .value = path});
}

void KVStore::set_gradient_compression(std::string_view kind, double threshold) {
  configure({.method = Method::set_gradient_compression,
             .value = std::string(kind),
             .threshold = threshold});
}

void KVStore::barrier() {
  front_desk_->require_usable("barrier");
  backend_->barrier();
}

int KVStore::join() {
  front_desk_->require_usable("join");
  return backend_->join();
}

int KVStore::num_dead_node() const {
  require(backend_->traits(), Method::num_dead_node);
  return backend_->num_dead_node();
}

Tensor KVStore::allocate(const Shape& shape, DType dtype, Device device) {
  front_desk_->require_usable("allocate");
  if (device.kind == Device::Kind::cpu) return backend_->allocate(shape, dtype);
  const Traits& traits = backend_->traits();
  if (!traits.takes_gpu_tensors) {
    throw Error(ErrorCode::unsupported, "allocate on " + name(device) + ": a store of type '" +
                                            traits.type +
                                            "' takes tensors on the CPU; allocate there, or "
                                            "create a store of another type, such as "
                                            "'dist_sync_mpi' or 'device'");
  }
  return gpu_tensor(not_in_child(new cuda::Gpu(device.index)), shape, dtype);
}

Counters KVStore::counters() const {
  return backend_->counters();
}

std::vector<Choice> KVStore::choices() const {
  return backend_->choices();
}

}  // namespace tutti
