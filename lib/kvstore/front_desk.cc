#include "kvstore/front_desk.h"

#include "kvstore/methods.h"

namespace tutti {
namespace {

/// For methods that do not reduce: takes the first tensor of each key.
void take_firsts(std::span<const Values> values, std::vector<Values>& into) {
  for (const Values& each : values) into.emplace_back(each[0]);
}

}  // namespace

void FrontDesk::require_usable(std::string_view method) const {
  fork_guard_.check();
  if (closed_) refuse_closed(method);
}

void FrontDesk::check(const MethodCall& call, const Traits& traits, const Use& workspace) {
  require(traits, call.method);
  tutti::check(call, traits, workspace->order);
  sort_outputs(call, workspace->overlap);
  key_kind_.admit(call.keys);
}

Pending FrontDesk::submit(Backend& backend, MethodCall call) {
  const Traits& traits = backend.traits();
  require_usable(name(call));
  const Use workspace(workspaces_);
  check(call, traits, workspace);
  if (!moves_objects(call)) has_moved_tensors_ = true;
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
        call.ins, call.outs, ins, [&](const Tensor& in) { return backend.copy_of(in); },
        workspace->overlap, places_of_outputs(call, traits, workspace->places));
  }
  return backend.submit(call);
}

bool FrontDesk::check_for_later(const Backend& backend, const MethodCall& call) {
  require_usable(name(call));
  const Use workspace(workspaces_);
  check(call, backend.traits(), workspace);
  return has_overlapping_inputs(call.ins, call.outs, workspace->overlap);
}

Pending FrontDesk::submit_checked(Backend& backend, const MethodCall& call) {
  has_moved_tensors_ = true;
  return backend.submit(call);
}

void FrontDesk::close() {
  closed_ = true;
  workspaces_.take_all();
}

}  // namespace tutti
