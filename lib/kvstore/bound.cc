#include "tutti/bound.h"

#include <utility>

#include "base/completion.h"
#include "kvstore/bound_call.h"
#include "kvstore/methods.h"

namespace tutti {
namespace {

constexpr std::string_view call_name = "bound pushpull";

BoundCall& binding_of(const std::shared_ptr<BoundCall>& call) {
  if (call != nullptr) return *call;
  throw Error(ErrorCode::invalid_argument,
              "this Bound refers to no binding any more; use the Bound to which it was moved");
}

}  // namespace

BoundCall::BoundCall(std::shared_ptr<FrontDesk> front_desk, const std::shared_ptr<Backend>& backend,
                     std::vector<Key> keys, std::vector<Values> ins, std::vector<Values> outs,
                     CallOptions options)
    : front_desk_(std::move(front_desk)),
      backend_(backend),
      keys_(std::move(keys)),
      ins_(std::move(ins)),
      outs_(std::move(outs)),
      options_(options),
      copies_inputs_(front_desk_->check_for_later(*backend, call(false))) {}

MethodCall BoundCall::call(bool waits) const {
  return {.method = Method::pushpull,
          .keys = keys_,
          .ins = ins_,
          .outs = outs_,
          .options = options_,
          .waits = waits,
          .called = call_name};
}

Pending BoundCall::submit(bool waits) {
  front_desk_->require_usable(call_name);
  const std::shared_ptr<Backend> backend = backend_.lock();
  if (backend == nullptr) refuse_closed(call_name);
  Pending pending = copies_inputs_ ? front_desk_->submit(*backend, call(waits))
                                   : front_desk_->submit_checked(*backend, call(waits));
  // The earlier outcome is dropped without the mutex, because its list takes others.
  Pending earlier = pending;
  const base::Lock lock(mutex_);
  std::swap(last_, earlier);
  return pending;
}

Pending BoundCall::last() const {
  const base::Lock lock(mutex_);
  return last_;
}

Pending Bound::start() const {
  return binding_of(call_).submit(false);
}

void Bound::wait() const {
  binding_of(call_).last().wait();
}

bool Bound::wait_for(std::chrono::nanoseconds limit) const {
  return binding_of(call_).last().wait_for(limit);
}

void Bound::run() const {
  base::refuse_in_callback("run()");
  binding_of(call_).submit(true).wait();
}

Pending Bound::run_for(std::chrono::nanoseconds limit) const {
  base::refuse_in_callback("run_for()");
  Pending pending = binding_of(call_).submit(true);
  pending.wait_for(limit);
  return pending;
}

}  // namespace tutti
