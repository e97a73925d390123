#include "runtime/session.h"

#include <fmt/format.h>

#include <utility>

#include "base/heap.h"
#include "base/log.h"
#include "runtime/choices.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

Pending pending_of(std::shared_ptr<CallList> list) {
  base::Completion* const completion = &*list->completion;
  return Pending(std::shared_ptr<base::Completion>(std::move(list), completion));
}

}  // namespace

Session::Session(World world, const Options& options)
    : options_(options),
      place_(static_cast<const Place&>(world)),
      inbox_(place_.rank),
      loss_log_(place_, inbox_),
      parts_(
          SessionParts::open(std::move(world), options,
                             [this](const control::FailedRank& lost) { loss_log_.write(lost); })),
      topology_(parts_->topology()),
      segment_bytes_(parts_->segment_bytes()),
      choices_(choices_of(parts_->topology(), parts_->machine(), parts_->tuning(),
                          parts_->protocol(), options_,
                          Executor::may_use_any_thread(parts_->data()))) {
  executor_ = std::make_unique<Executor>(
      place_, parts_->protocol(), parts_->control(), parts_->engine(), parts_->data(), inbox_,
      loss_log_, tally_, parts_->timeline(), parts_->device(), parts_->peers());
  progress_lock_ = std::make_shared<ProgressLock>(*executor_, parts_->bell(),
                                                  parts_->machine().crowded(parts_->topology()));
  thread_ = base::NamedThread("tutti-exec", [this] { run(); });
  parts_->on_mpi_finalise([this] { close(Telling::nobody); });
}

void Session::end() {
  if (std::exchange(ended_, true)) return;
  if (fork_guard_.is_in_child()) {
    // The threads exist only in the parent.
    thread_.abandon();
    parts_->abandon_in_child();
    parts_->abandon_mpi(true);
    return;
  }
  base::abort_in_callback();
  // The order matters: an MPI_Finalize that finds the store open waits until the store is closed.
  close(Telling::nobody);
  parts_->on_mpi_finalise(nullptr);
}

void Session::close() {
  if (fork_guard_.is_in_child()) return;
  base::refuse_in_callback("close()");
  // To the other ranks, this rank has already come to its barrier or join.
  { const base::Lock until_it_is_over(meeting_); }
  close(Telling::caller);
}

std::optional<Error> Session::depart() {
  try {
    auto completion = std::make_shared<base::Completion>(1, "closing the store", progress_lock_);
    inbox_.submit(DepartCall{completion});
    progress_lock_->serve_inbox();
    Pending(completion).wait();
    return std::nullopt;
  } catch (const Error& error) {
    base::log().debug("closing a store that had ended already: {}", error.what());
    return error;
  }
}

std::optional<Error> Session::leave_in_order() {
  // This comes after the timeline is written: rank 0 takes a departure to mean that this rank's
  // part is there.
  parts_->control().announce_departed();
  parts_->wait_for_followers(options_.stall_report_after, options_.key_timeout);
  parts_->merge_timeline();
  const auto lost = parts_->control().lost_rank();
  if (!lost) return std::nullopt;
  return place_.explain(Error(
      ErrorCode::peer_lost,
      fmt::format("rank {} is lost: {}; it happened while this store was closed, so no key was in "
                  "flight",
                  lost->rank, lost->reason),
      {.key = {}, .ranks = {lost->rank}}));
}

// A closed store may live on for long, so its tables are freed here. This thread has made most of
// them, and malloc returns the free end of a thread's arena only while that thread lives.
void Session::run() {
  progress_lock_->run();
  progress_lock_->close();
  is_lost_ = executor_->is_lost();
  keys_ = inbox_.keys();
  base::return_memory_of(keys_, [this] {
    executor_.reset();
    call_pool_->drop_spares();
    inbox_.forget_keys();
  });
}

void Session::close(Telling whom) {
  const base::Lock lock(closing_);
  if (!thread_.joinable()) return;
  const bool told = inbox_.has_told();
  std::optional<Error> failure = depart();
  thread_.join();
  parts_->write_timeline(is_lost_);
  if (!is_lost_) failure = leave_in_order();
  // A rank may also have been lost during that wait, and MPI_Finalize would wait for it.
  if (failure) parts_->abandon_mpi(told || whom == Telling::caller);
  {
    const base::Lock counting(counting_);
    control_messages_ = parts_->control_messages();
  }
  parts_->close();
  base::return_memory_of(keys_);
  if (failure && !told && whom == Telling::caller) throw Error(*failure);
}

std::shared_ptr<CallList> Session::new_calls(std::size_t count, std::string_view verb) {
  std::shared_ptr<CallList> list = call_pool_->take(count);
  list->open(verb, progress_lock_);
  return list;
}

void Session::put(const std::shared_ptr<CallList>& list) {
  if (DeviceSide::concerns(list->calls)) {
    inbox_.check_alive();
    list->open(list->verb(), progress_lock_, parts_->device().admit(list->calls));
  }
  list->submitted = parts_->timeline().now();
  inbox_.submit(list);
}

Pending Session::submit(std::shared_ptr<CallList> list) {
  put(list);
  progress_lock_->serve_inbox();
  return pending_of(std::move(list));
}

Pending Session::submit_to_wait(std::shared_ptr<CallList> list) {
  put(list);
  return pending_of(std::move(list));
}

Pending Session::send(const Tensor& tensor, int to, int tag) {
  return submit(std::make_shared<PeerCall>(true, tensor, to, tag, nullptr, progress_lock_));
}

Pending Session::receive(const Tensor& tensor, int from, int tag, int* source) {
  return submit(std::make_shared<PeerCall>(false, tensor, from, tag, source, progress_lock_));
}

Pending Session::submit(std::shared_ptr<PeerCall> call) {
  inbox_.submit(call);
  progress_lock_->serve_inbox();
  base::Completion* const completion = &call->completion;
  return Pending(std::shared_ptr<base::Completion>(std::move(call), completion));
}

void Session::barrier() {
  base::refuse_in_callback("barrier()");
  const base::Lock lock(meeting_);
  auto list = new_calls(1, "barrier");
  static_cast<coordinator::Call&>(list->calls[0]) = coordinator::barrier_call();
  submit_to_wait(std::move(list)).wait();
}

int Session::join() {
  base::refuse_in_callback("join()");
  const base::Lock lock(meeting_);
  auto completion = std::make_shared<base::Completion>(1, "join", progress_lock_);
  auto last = std::make_shared<int>(-1);
  inbox_.submit(JoinCall{completion, last});
  progress_lock_->serve_inbox();
  Pending(completion).wait();
  return *last;
}

Tensor Session::allocate(const Shape& shape, DType dtype) {
  inbox_.check_alive();
  return parts_->allocate(shape, dtype);
}

Counters Session::counters() const {
  Counters counters;
  counters.tensors_reduced = tally_.tensors_reduced;
  counters.bytes_reduced = tally_.bytes_reduced;
  counters.tensors_broadcast = tally_.tensors_broadcast;
  counters.bytes_broadcast = tally_.bytes_broadcast;
  counters.tensors_gathered = tally_.tensors_gathered;
  counters.bytes_gathered = tally_.bytes_gathered;
  counters.batches = tally_.batches;
  counters.bytes_between_nodes = tally_.bytes_between_nodes + tally_.bytes_to_peers;
  const base::Lock counting(counting_);
  counters.control_messages = control_messages_ ? *control_messages_ : parts_->control_messages();
  counters.nodes = topology_.nodes.size();
  counters.buffer_bytes = segment_bytes_ + tally_.engine_bytes + tally_.device_bytes +
                          tally_.peer_bytes + call_pool_->bytes();
  counters.allocated_bytes = parts_->arena().held();
  counters.allocated_peak_bytes = parts_->arena().peak();
  return counters;
}

}  // namespace tutti::runtime
