#include "kvstore/collective_store.h"

#include <atomic>
#include <utility>

#include "kvstore/backend.h"
#include "kvstore/checks.h"
#include "runtime/session.h"
#include "runtime/world.h"
#include "tutti/error.h"

namespace tutti {
namespace {

coordinator::Kind kind_of(Method method) {
  switch (method) {
    case Method::broadcast:
      return coordinator::Kind::broadcast;
    case Method::reduce_scatter:
      return coordinator::Kind::reduce_scatter;
    case Method::allgather:
      return coordinator::Kind::allgather;
    default:
      return coordinator::Kind::allreduce;
  }
}

class CollectiveStore : public Backend {
 public:
  CollectiveStore(const std::string& type, std::unique_ptr<runtime::Session> session)
      : Backend({.type = type,
                 .rank = session->rank(),
                 .size = session->size(),
                 .methods = {Method::pushpull, Method::broadcast, Method::reduce_scatter,
                             Method::allgather, Method::set_gradient_compression}}),
        session_(std::move(session)) {}

  Pending submit(Request&& request) override {
    const std::string what = describe(request);
    std::vector<runtime::TensorCall> calls(request.keys.size());
    for (std::size_t i = 0; i < calls.size(); ++i) describe_call(request, i, calls[i]);
    return session_->submit(std::move(calls), what);
  }

  void configure(const Setting& setting) override {
    wire_ = wire_format(setting.value, traits().type);
  }
  void barrier() override { session_->barrier(); }
  int join() override { return session_->join(); }
  Tensor allocate(const Shape& shape, DType dtype) override {
    return session_->allocate(shape, dtype);
  }
  Counters counters() const override { return session_->counters(); }

 private:
  void describe_call(Request& request, std::size_t i, runtime::TensorCall& call) const {
    const bool reduces =
        request.method == Method::pushpull || request.method == Method::reduce_scatter;
    // The other side of a reduce_scatter or an allgather is a shard.
    const Tensor& like = reduces ? request.ins[i][0] : request.outs[i][0];
    call.key = std::move(request.keys[i]);
    call.signature.kind = kind_of(request.method);
    call.signature.dtype = like.dtype();
    call.signature.shape = like.shape();
    call.signature.op = request.options.op;
    call.signature.root = request.root;
    call.signature.device = like.device().kind;
    if (reduces && like.dtype() == DType::f32) call.signature.wire = wire_;
    call.priority = request.options.priority;
    call.ins = std::move(request.ins[i]);
    call.outs = std::move(request.outs[i]);
  }

  std::unique_ptr<runtime::Session> session_;
  std::atomic<WireFormat> wire_{WireFormat::none};
};

}  // namespace

std::unique_ptr<Backend> make_collective_backend(const std::string& type, const Options& options) {
  std::unique_ptr<runtime::Session> session;
  runtime::with_mpi_world(options, [&](runtime::World world) {
    session = std::make_unique<runtime::Session>(std::move(world), options);
  });
  return std::make_unique<CollectiveStore>(type, std::move(session));
}

}  // namespace tutti
