// This part of the executor carries out the participant's actions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "coordinator/wire.h"
#include "runtime/executor.h"
#include "tutti/error.h"
#include "tutti/shard.h"

namespace tutti::runtime {

namespace {

/// Completes the batch of an all_to_all. This part is the only one of the batch and of the call.
void share_out(collective::Batch& batch, const coordinator::LocalPart& part, const TensorCall& call,
               int ranks) {
  batch.shares = {call.counts, ranks, part.whole, {part.begin, part.begin + part.count}};
  batch.parts.back().count = std::max(call.ins[0].count(), call.outs[0].count());
}

}  // namespace

std::exception_ptr Executor::pointer_to(const std::optional<Error>& error) const {
  return error ? std::make_exception_ptr(place_.explain(*error)) : nullptr;
}

bool Executor::apply_actions() {
  bool any = false;
  owes_actions_ = false;
  std::vector<coordinator::Action> actions = std::exchange(actions_, {});
  // An action can cause further ones: the callback of a finished call submits a call, or a gate
  // closes.
  for (;;) {
    actions = participant_.take_actions(std::move(actions));
    if (actions.empty()) break;
    any = true;
    release_finished(actions);
    for (coordinator::Action& action : actions) {
      std::visit([&](auto& concrete) { apply(concrete); }, action);
    }
  }
  actions_ = std::move(actions);
  return any;
}

// Releases all calls at once, because each release locks the inbox.
void Executor::release_finished(const std::vector<coordinator::Action>& actions) {
  released_.clear();
  for (const coordinator::Action& action : actions) {
    if (const auto* const finish = std::get_if<coordinator::Finish>(&action)) {
      released_.push_back(&calls_.at(finish->call));
    }
  }
  if (!released_.empty()) inbox_.release(released_);
}

void Executor::apply(coordinator::Send& action) {
  control_.send(coordinator::encode(action.message));
}

void Executor::apply(coordinator::Enter& action) {
  running_.push_back(prepare(std::move(action.batch)));
  const RunningBatch& entered = *running_.back();
  recorder_.record(looked_at_, "entered", entered.batch.epoch, entered.batch.number);
  record_entry(entered);
  engine_.enter(entered.batch);
  has_unseen_gate_ = true;
}

void Executor::apply(coordinator::Withdraw& action) {
  const auto open = std::find_if(running_.begin(), running_.end(), [&](const auto& running) {
    return running->batch.epoch == action.epoch && running->batch.number == action.number;
  });
  base::check(open != running_.end() && !(*open)->gate_closed, "only an open gate is withdrawn");
  recorder_.record(looked_at_, "withdrawn", action.epoch, action.number);
  timeline_.record_withdrawn(timeline_.now(), action.epoch, action.number);
  engine_.withdraw(action.epoch, action.number);
  running_.erase(open);
}

void Executor::apply(coordinator::CloseGate& action) {
  for (const auto& running : running_) {
    if (running->batch.epoch == action.epoch && running->batch.number == action.number) {
      recorder_.record(looked_at_, "gate closed by resume", action.epoch, action.number);
      timeline_.record_closed(timeline_.now(), action.epoch, action.number);
      running->gate_closed = true;
    }
  }
}

void Executor::apply(coordinator::Finish& action) {
  timeline_.record_finished(action.call, !action.error);
  finish(calls_.take(action.call), pointer_to(action.error));
}

void Executor::apply(coordinator::JoinDone& action) {
  auto join = std::exchange(join_, std::nullopt);
  *join->last = action.last;
  settle(join->completion, pointer_to(action.error));
}

void Executor::apply(coordinator::DepartDone& action) {
  static_cast<void>(action);
  finished_ = true;
  const auto closed = std::make_exception_ptr(
      Error(ErrorCode::aborted,
            fmt::format("rank {} has closed this store, or has finalised MPI, which closes it",
                        place_.rank)));
  auto depart = std::exchange(depart_, std::nullopt);
  if (depart) settle(depart->completion, nullptr);
  fail_everything(closed);
}

void Executor::apply(coordinator::PeerLost& action) {
  lost_.store(true, std::memory_order_release);
  // The job is over for all ranks, so they need not take this rank's own end for a loss.
  control_.announce_departed();
  const std::string message = action.message + peer_flight_text();
  loss_log_.write(action.rank, message);
  const auto lost = std::make_exception_ptr(
      place_.explain(Error(ErrorCode::peer_lost, message, {.ranks = {action.rank}})));
  fail_everything(own_failure_ ? own_failure_ : lost);
}

void Executor::apply(coordinator::Notice& action) {
  base::log().warn("{}", place_.explain(action.text));
}

void Executor::record_submission(const CallList& list, coordinator::CallId id, std::uint32_t row,
                                 const TensorCall& call) {
  timeline_.record_submitted(list.submitted, id, row, call.key, call.signature.kind);
}

void Executor::record_plan(const coordinator::ToRank& message) {
  if (!timeline_.is_on()) return;
  const auto* const plan = std::get_if<coordinator::Plan>(&message);
  if (plan != nullptr) timeline_.record_planned(plan->epoch, plan->first, plan->batches.size());
}

void Executor::record_entry(const RunningBatch& running) {
  if (!timeline_.is_on()) return;
  const collective::Batch& batch = running.batch;
  timeline_.record_entered(timeline_.now(), batch.epoch, batch.number, batch.bytes());
  for (const coordinator::LocalPart& part : running.plan.parts) timeline_.record_part(part.call);
}

void Executor::shard_out(collective::Batch& batch, const coordinator::LocalPart& part) const {
  batch.rows = collective::Rows::of_part(part.whole, place_.size, part.begin, part.count);
  collective::TensorPart& tensor_part = batch.parts.back();
  tensor_part.count = part.whole;
  const bool scatters = batch.kind == CollectiveKind::reduce_scatter;
  (scatters ? tensor_part.out_first : tensor_part.in_first) =
      shard(part.whole, place_.rank, place_.size).begin;
}

std::unique_ptr<Executor::RunningBatch> Executor::prepare(coordinator::LocalBatch plan) {
  if (spare_.empty()) spare_.push_back(std::make_unique<RunningBatch>());
  std::unique_ptr<RunningBatch> running = std::move(spare_.back());
  spare_.pop_back();
  running->gate_closed = running->issued = false;
  collective::Batch& batch = running->batch;
  batch.epoch = plan.epoch;
  batch.number = plan.number;
  batch.kind = plan.kind;
  batch.dtype = plan.dtype;
  batch.op = plan.op;
  batch.root = plan.root;
  batch.wire = plan.wire;
  batch.divisor = plan.op == ReduceOp::average ? plan.active_ranks : 1;
  const bool device = plan.device == Device::Kind::gpu;
  batch.ends = device ? &device_ends() : nullptr;
  batch.may_group =
      device && plan.kind == CollectiveKind::allreduce && plan.active_ranks == place_.size;
  std::swap(running->plan, plan);
  participant_.reuse(std::move(plan));
  point_to_tensors(*running);
  return running;
}

collective::Ends& Executor::device_ends() {
  if (!std::exchange(uses_device_, true)) {
    engine_.open_own_staging(device_.memory(), &device_);
    tally_.device_bytes.store(device_.buffer_bytes(), std::memory_order_relaxed);
  }
  return device_.ends();
}

void Executor::point_to_tensors(RunningBatch& running) {
  const std::size_t width = size_of(running.plan.dtype);
  running.ins.clear();
  running.outs.clear();
  running.batch.whole_bytes = 0;
  for (const coordinator::LocalPart& part : running.plan.parts) {
    if (part.call == 0) continue;
    const TensorCall& call = calls_.at(part.call);
    running.batch.whole_bytes += call.signature.shape.count() * width;
    // The only part of a sharded batch or of an all_to_all is the whole tensor.
    const bool whole = running.batch.is_sharded() || running.batch.is_all_to_all();
    const std::size_t begin = whole ? 0 : part.begin * width;
    const auto at = [&](const Tensor& tensor) { return tensor.as<std::byte>() + begin; };
    for (const Tensor& tensor : call.ins) running.ins.push_back(at(tensor));
    for (const Tensor& tensor : call.outs) running.outs.push_back(at(tensor));
  }
  lay_out_parts(running);
}

// `ins` and `outs` do not grow any more: pointers into them stay valid.
void Executor::lay_out_parts(RunningBatch& running) const {
  std::vector<collective::TensorPart>& parts = running.batch.parts;
  parts.clear();
  const void* const* in = running.ins.data();
  void* const* out = running.outs.data();
  for (const coordinator::LocalPart& part : running.plan.parts) {
    const bool mine = part.call != 0;
    const std::size_t ins = mine ? calls_.at(part.call).ins.size() : 0;
    const std::size_t outs = mine ? calls_.at(part.call).outs.size() : 0;
    // The part is built in place. If it were built first and then copied, the copy would wait for
    // the stores of the first.
    collective::TensorPart& tensor_part = parts.emplace_back();
    tensor_part.ins = {in, ins};
    tensor_part.outs = {out, outs};
    tensor_part.count = part.count;
    if (mine) tensor_part.ready = calls_.at(part.call).ready.get();
    if (running.batch.is_sharded()) shard_out(running.batch, part);
    if (running.batch.is_all_to_all()) {
      share_out(running.batch, part, calls_.at(part.call), place_.size);
    }
    in += ins;
    out += outs;
  }
}

}  // namespace tutti::runtime
