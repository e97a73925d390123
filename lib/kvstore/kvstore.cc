#include "tutti/kvstore.h"

#include <atomic>
#include <string>
#include <utility>

#include "base/completion.h"
#include "base/failure.h"
#include "base/fork_guard.h"
#include "base/spares.h"
#include "kvstore/backend.h"
#include "kvstore/checks.h"
#include "kvstore/local_gpu.h"
#include "kvstore/methods.h"
#include "kvstore/overlap.h"
#include "kvstore/peer_checks.h"
#include "optimizer/names.h"

namespace tutti {
namespace {

/// For methods that do not reduce: takes the first tensor of each key.
void take_firsts(std::span<const Values> values, std::vector<Values>& into) {
  for (const Values& each : values) into.emplace_back(each[0]);
}

/// Memory for checking one call, kept for the next.
struct Workspace {
  std::vector<std::size_t> order;
  OverlapMemory overlap;
  std::vector<std::ptrdiff_t> places;
  std::vector<Values> ins;  ///< replace the caller's where they differ

  /// Borrows a workspace for one call. Afterwards the workspace holds none of the caller's tensors.
  class Use {
   public:
    explicit Use(base::Spares<Workspace>& spares) : workspace_(spares) {}
    ~Use() { workspace_->ins.clear(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Workspace* operator->() const { return &*workspace_; }

   private:
    base::Borrowed<Workspace> workspace_;
  };
};

}  // namespace

/// The state that KVStore needs to check calls before the backend gets them. Thread-safe.
class FrontDesk {
 public:
  KeyKind key_kind;
  std::atomic<bool> has_moved_tensors{false};
  std::atomic<bool> closed{false};
  base::Spares<Workspace> workspaces;

  bool is_in_child() const { return fork_guard_.is_in_child(); }
  /// Call this before anything else. In a forked child a mutex that another thread held at the fork
  /// is never released.
  void require_usable(std::string_view method) const {
    fork_guard_.check();
    if (closed) refuse_closed(method);
  }

 private:
  const base::ForkGuard fork_guard_;
};

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
  front_desk_->closed = true;
  front_desk_->workspaces.take_all();
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

Pending KVStore::submit(MethodCall call) {
  const Traits& traits = backend_->traits();
  front_desk_->require_usable(name(call.method));
  const Workspace::Use workspace(front_desk_->workspaces);
  require(traits, call.method);
  check(call, traits, workspace->order);
  sort_outputs(call, workspace->overlap);
  front_desk_->key_kind.admit(call.keys);
  if (!moves_objects(call)) front_desk_->has_moved_tensors = true;
  std::vector<Values>& ins = workspace->ins;
  if (call.method == Method::broadcast) {
    if (call.root == traits.rank) take_firsts(call.outs, ins);
    ins.resize(call.keys.size());
    call.ins = ins;
  }
  if (call.method == Method::allgather) {
    take_firsts(call.ins, ins);
    call.ins = ins;
  }
  if (!call.ins.empty() && !call.outs.empty()) {
    call.ins = detach_overlapping_inputs(
        call.ins, call.outs, ins, [this](const Tensor& in) { return backend_->copy_of(in); },
        workspace->overlap, places_of_outputs(call, traits, workspace->places));
  }
  return backend_->submit(call);
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
          .waits = true})
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
          .waits = true})
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
                            .waits = true});
  pending.wait_for(limit);
  return pending;
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
  now.after_tensors = front_desk_->has_moved_tensors;
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
