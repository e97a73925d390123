#include "kvstore/collective_store.h"

#include <atomic>
#include <utility>

#include "base/fork_guard.h"
#include "kvstore/backend.h"
#include "kvstore/checks.h"
#include "kvstore/environment.h"
#include "kvstore/methods.h"
#include "kvstore/single_store.h"
#include "runtime/session.h"
#include "runtime/world.h"
#include "tutti/error.h"

namespace tutti {
namespace {

CollectiveKind collective_of(Method method) {
  switch (method) {
    case Method::broadcast:
      return CollectiveKind::broadcast;
    case Method::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case Method::allgather:
      return CollectiveKind::allgather;
    case Method::all_to_all:
      return CollectiveKind::all_to_all;
    default:
      return CollectiveKind::allreduce;
  }
}

class CollectiveStore : public Backend {
 public:
  CollectiveStore(const std::string& type, const Options& options,
                  std::unique_ptr<runtime::Session> session)
      : Backend({.type = type,
                 .rank = session->rank(),
                 .size = session->size(),
                 .local_rank = session->topology().local_index(),
                 .local_size = session->topology().local_size(),
                 .nodes = session->topology().node_count(),
                 .methods = {Method::pushpull, Method::broadcast, Method::reduce_scatter,
                             Method::allgather, Method::all_to_all,
                             Method::set_gradient_compression, Method::send, Method::recv},
                 .sums_repeated_keys = false,
                 .takes_gpu_tensors = true,
                 .may_only_contribute = true}),
        session_(std::move(session)),
        choices_(choices_of(options, session_->choices(), process_environment())) {}
  ~CollectiveStore() override {
    // In a forked child most threads of the parent are missing. One of them may have been changing
    // the session, so the child never destroys it.
    if (fork_.is_in_child()) static_cast<void>(session_.release());
  }

  Pending submit(const MethodCall& call) override {
    auto list = session_->new_calls(call.keys.size(), name(call));
    for (std::size_t i = 0; i < list->calls.size(); ++i) fill_in(call, i, list->calls[i]);
    return call.waits ? session_->submit_to_wait(std::move(list))
                      : session_->submit(std::move(list));
  }

  Pending pass(const PeerRequest& request) override {
    static_assert(any_rank == p2p::any_peer);
    if (request.method == Method::send) {
      return session_->send(request.tensor, request.peer, request.tag);
    }
    return session_->receive(request.tensor, request.peer, request.tag, request.source);
  }

  void configure(const SettingCall& setting) override {
    const WireFormat wire = wire_format(setting.value, traits().type);
    if (setting.after_tensors) refuse_late(setting, ": ranks would send in different formats");
    wire_ = wire;
  }
  void close() override { session_->close(); }
  void end() override { session_->end(); }
  void barrier() override { session_->barrier(); }
  int join() override { return session_->join(); }
  Tensor allocate(const Shape& shape, DType dtype) override {
    return session_->allocate(shape, dtype);
  }
  Counters counters() const override { return session_->counters(); }
  std::vector<Choice> choices() const override { return choices_; }

 private:
  void fill_in(const MethodCall& call, std::size_t i, runtime::TensorCall& tensor_call) const {
    const CollectiveKind kind = collective_of(call.method);
    const bool reduces = is_reducing(kind);
    // `like` is the whole tensor. In a reduce_scatter the output is a shard of it, and in an
    // allgather the input.
    const Tensor& like = reduces ? call.ins[i][0] : call.outs[i][0];
    tensor_call.key = call.keys[i];
    tensor_call.signature.kind = kind;
    tensor_call.signature.dtype = like.dtype();
    tensor_call.signature.shape = like.shape();
    tensor_call.signature.counts = 0;
    tensor_call.signature.op = call.options.op;
    tensor_call.signature.root = call.root;
    tensor_call.signature.device = like.device().kind;
    const bool may_narrow = reduces && like.dtype() == DType::f32;
    tensor_call.signature.wire = may_narrow ? wire_.load() : WireFormat::none;
    tensor_call.priority = call.options.priority;
    tensor_call.ins = call.ins[i];
    tensor_call.outs = call.outs[i];
    if (kind == CollectiveKind::all_to_all) tensor_call.set_counts(call.counts, traits().size);
  }

  const base::ForkGuard fork_;
  std::unique_ptr<runtime::Session> session_;
  const std::vector<Choice> choices_;
  std::atomic<WireFormat> wire_{WireFormat::none};
};

}  // namespace

std::unique_ptr<Backend> make_collective_backend(const std::string& type, const Options& options) {
  if (runtime::is_alone(options)) {
    warn_of_no_timeline(options, "a store of one rank alone");
    return make_single_backend(type, options);
  }
  std::unique_ptr<runtime::Session> session;
  runtime::with_mpi_world(options, [&](runtime::World world) {
    session = std::make_unique<runtime::Session>(std::move(world), options);
  });
  return std::make_unique<CollectiveStore>(type, options, std::move(session));
}

}  // namespace tutti
