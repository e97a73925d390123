#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/wait_limits.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// A message up to this size fits into the buffer of any socket. So MPI holds no part of it back,
/// unless earlier messages still wait.
constexpr std::uint64_t any_socket_takes = 4096;

/// The most times that one pass lingers for other ranks: once at a gate, and twice at the meetings
/// of a batch that moves by halves. So such a call takes one pass.
constexpr int most_lingers = 3;

/// Only one thread at a time writes the counter.
void count(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// Whether the part is the last part of a call of this rank.
bool ends_call(const coordinator::LocalPart& part) {
  return part.call != 0 && part.begin + part.count >= part.whole;
}

}  // namespace

Executor::Executor(Place place, const coordinator::Settings& settings,
                   control::ControlPlane& control, collective::Engine& engine,
                   const mpi::Communicator* data, Inbox& inbox, LossLog& loss_log, Tally& tally,
                   observe::Timeline& timeline, DeviceSide& device, PeerSide& peers)
    : place_(std::move(place)),
      participant_(place_.rank, place_.size, settings),
      control_(control),
      engine_(engine),
      data_(data),
      inbox_(inbox),
      loss_log_(loss_log),
      tally_(tally),
      timeline_(timeline),
      device_(device),
      peers_(peers),
      stall_time_(settings.stall_report_after),
      key_timeout_(settings.key_timeout),
      stall_interval_(settings.stall_report_after) {
  tally_.engine_bytes = engine_.buffer_bytes();
}

void Tally::count(const coordinator::Signature& signature) {
  const auto add = [&](auto& tensors, auto& bytes) {
    runtime::count(tensors, 1);
    runtime::count(bytes, signature.shape.count() * size_of(signature.dtype));
  };
  switch (signature.kind) {
    case CollectiveKind::allreduce:
    case CollectiveKind::reduce_scatter:
      return add(tensors_reduced, bytes_reduced);
    case CollectiveKind::broadcast:
      return add(tensors_broadcast, bytes_broadcast);
    case CollectiveKind::allgather:
    case CollectiveKind::all_to_all:
      return add(tensors_gathered, bytes_gathered);
    case CollectiveKind::barrier:
      return;
  }
}

coordinator::Time Executor::now() const {
  return looked_at_ - start_;
}

bool Executor::pass() {
  return run_guarded([this] {
    bool moved = look_around();
    if (!finished_) moved |= move_between_peers();
    if (!finished_) moved |= advance();
    for (int i = 0; i < most_lingers && !finished_ && engine_.linger(); ++i) moved |= advance();
    if (!moved) moved = note_waits();
    if (!moved && !engine_.is_polling()) flush();
    if (!moved) check_device();
    return moved;
  });
}

bool Executor::may_accept() const {
  return calls_.empty() || participant_.is_replaying();
}

bool Executor::accept() {
  bool more = false;
  run_guarded([this, &more] {
    const bool arrived = look_around();
    if (finished_) return false;
    // This thread looks once. The communication thread moves what takes longer.
    move_between_peers();
    const bool closed = look_at_gate();
    bool moved = closed;
    if (!running_.empty() && engine_.is_brief(running_.front()->batch) && may_move()) {
      moved |= start_next(closed);
      moved |= move_data();
    }
    if (owes_actions_) apply_actions();
    // A waiting thread that could not take the progress lock may have rung before this pass.
    if (!moved) moved = note_waits();
    more = moved && !is_idle();
    return moved || arrived;
  });
  return more;
}

bool Executor::look_around() {
  bool moved = tick();
  moved |= take_loss();
  moved |= take_submissions();
  moved |= take_mail();
  moved |= depart_when_peers_allow();
  moved |= apply_actions();
  return moved;
}

bool Executor::is_busy() const {
  return moving_ > 0 || (!running_.empty() && running_.front()->gate_closed) ||
         engine_.is_polling() || peers_.messenger().is_moving() || peers_.messenger().is_polling();
}

bool Executor::has_long_transfer() const {
  return std::any_of(running_.begin(), running_.end(), [this](const auto& running) {
    return running->batch.ends != nullptr ||
           (data_ != nullptr && running->batch.bytes() > worth_driving);
  });
}

// If a user thread queried the GPU, it would break a graph that the program captures, unless the
// thread were in another capture mode. It would also need the GPU's context.
bool Executor::may_move() {
  const bool device = std::any_of(running_.begin(), running_.end(), [](const auto& running) {
    return running->batch.ends != nullptr;
  });
  if (!device) return true;
  if (std::this_thread::get_id() != own_thread_) return false;
  device_.adopt_thread();
  return true;
}

bool Executor::run_guarded(const std::function<bool()>& work) {
  if (finished_) return false;
  try {
    moved_ = work();
    if (moved_) {
      last_move_ = now();
      stall_interval_ = stall_time_;
    }
    return moved_;
  } catch (const std::exception& error) {
    fail(error);
    return true;
  }
}

// A rank that fails by itself tells the others, so that nobody waits for it.
void Executor::fail(const std::exception& error) {
  const std::string text = fmt::format("rank {} failed: {}", place_.rank, error.what());
  const std::string in_flight = in_flight_text() + peer_flight_text();
  loss_log_.write(place_.rank, fmt::format("{} ({})", text, in_flight));
  lost_.store(true, std::memory_order_release);
  own_failure_ = std::make_exception_ptr(
      place_.explain(Error(ErrorCode::internal, fmt::format("{}; {}", text, in_flight))));
  try {
    participant_.note_lost(place_.rank, error.what());
    apply_actions();
  } catch (const std::exception& again) {
    base::log().error("and could not tell the others: {}", again.what());
  }
  fail_everything(own_failure_);
}

// This matters only while the replay lacks a call.
bool Executor::note_waits() {
  if (!participant_.is_asking_who_waits()) return false;
  if (peers_.is_waited_for()) participant_.note_user_waits_elsewhere();
  calls_.for_each([this](const CallTable::Entry& entry) {
    if (entry.list->completion->is_waited_for()) participant_.note_user_waits(entry.call->key);
  });
  return apply_actions();
}

bool Executor::tick() {
  // The participant has no clock: for it, everything in this pass happens at the same time. The
  // clock is read once in a pass, because reading it takes half as long as the rest of a pass.
  looked_at_ = base::Clock::now();
  const auto due = participant_.next_tick();
  participant_.tick(now());
  return due && now() >= *due;
}

bool Executor::advance() {
  bool moved = look_at_gate();
  if (may_move()) {
    moved |= start_next(moved);
    moved |= move_data();
  }
  // The actions are carried out in this pass, so that a call whose last batch is done needs no
  // further pass.
  if (owes_actions_) apply_actions();
  return moved || gate_moved_;
}

bool Executor::look_at_gate() {
  gate_moved_ = has_unseen_gate_ = false;
  const auto open = std::find_if(running_.begin(), running_.end(),
                                 [](const auto& running) { return !running->gate_closed; });
  if (open == running_.end()) return false;
  const collective::Batch& batch = (*open)->batch;
  if (!engine_.poll_gate(batch.epoch, batch.number)) {
    gate_moved_ = engine_.has_gate_moved();
    return false;
  }
  (*open)->gate_closed = true;
  recorder_.record(looked_at_, "gate closed", batch.epoch, batch.number);
  timeline_.record_closed(timeline_.now(), batch.epoch, batch.number);
  participant_.note_gate_closed(batch.epoch, batch.number);
  owes_actions_ = true;
  return true;
}

bool Executor::start_next(bool at_once) {
  if (moving_ == running_.size() || !running_[moving_]->gate_closed) return false;
  const collective::Batch& batch = running_[moving_]->batch;
  if (!engine_.may_start()) return false;
  timeline_.record_started(batch.epoch, batch.number, at_once);
  engine_.start();
  ++moving_;
  return true;
}

bool Executor::move_data() {
  if (moving_ == 0) return false;
  const collective::Progress progress = engine_.step();
  note_issued();
  if (progress != collective::Progress::done) return progress == collective::Progress::moved;
  --moving_;
  std::unique_ptr<RunningBatch> done = std::move(running_.front());
  running_.erase(running_.begin());
  if (done->batch.kind != CollectiveKind::barrier) count(tally_.batches, 1);
  note_sent();
  tally_.engine_bytes.store(engine_.buffer_bytes(), std::memory_order_relaxed);
  recorder_.record(looked_at_, "batch done", done->batch.epoch, done->batch.number);
  timeline_.record_done(timeline_.now(), done->batch.epoch, done->batch.number);
  participant_.note_batch_done(done->batch.epoch, done->batch.number);
  owes_actions_ = true;
  spare_.push_back(std::move(done));
  return true;
}

void Executor::check_device() const {
  if (!engine_.is_copying()) return;
  device_.check_group();
  if (now() - last_move_ < key_timeout_) return;
  throw Error(
      ErrorCode::timeout,
      fmt::format("the GPU has finished neither a copy nor the program's work before the copy "
                  "within {}: {}",
                  base::key_limit(key_timeout_), engine_.describe()));
}

void Executor::note_issued() {
  for (std::size_t i = 0; i < moving_; ++i) {
    RunningBatch& running = *running_[i];
    if (running.batch.ends == nullptr || running.issued) continue;
    running.issued = engine_.is_issued(running.batch);
    if (!running.issued) return;
    released_.clear();
    for (const coordinator::LocalPart& part : running.plan.parts) {
      if (ends_call(part)) released_.push_back(&calls_.at(part.call));
    }
    // This comes first, because a program that returns from `wait_on` may submit the key again at
    // once.
    inbox_.note_ending(released_);
    for (const coordinator::LocalPart& part : running.plan.parts) {
      if (ends_call(part)) calls_.list_of(part.call).completion->issue();
    }
  }
}

/// Counts the bytes that a finished batch has sent between nodes.
void Executor::note_sent() {
  const std::uint64_t sent = engine_.bytes_between_nodes();
  const std::uint64_t before = tally_.bytes_between_nodes.exchange(sent, std::memory_order_relaxed);
  if (sent - before <= any_socket_takes && !engine_.is_sending()) return;
  flush_timer_.note_sent(looked_at_);
}

void Executor::flush() {
  if (looked_at_ < flush_timer_.next()) return;
  data_->progress();
  flush_timer_.note_flushed(looked_at_);
}

Executor::Rest Executor::prepare_rest() {
  // An hour is safe, because messages and deaths ring the bell.
  Rest rest{.until = looked_at_ + std::chrono::hours(1)};
  if (has_waiting_user()) {
    const coordinator::Time due = last_move_ + stall_interval_;
    if (now() >= due) report_stall();
    rest.until = std::min(rest.until, start_ + (last_move_ + stall_interval_));
  }
  if (const auto due = participant_.next_tick()) rest.until = std::min(rest.until, start_ + *due);
  const p2p::Messenger& messenger = peers_.messenger();
  if (const auto due = messenger.next_tick()) rest.until = std::min(rest.until, start_ + *due);
  if (engine_.is_polling() || messenger.is_polling()) {
    const bool moves = (engine_.is_polling() && moving_ > 0) || messenger.is_moving_between_nodes();
    rest.reason = moves ? Waiter::For::transfer : Waiter::For::gate;
  } else {
    rest.until = std::min(rest.until, flush_timer_.next());
  }
  return rest;
}

}  // namespace tutti::runtime
