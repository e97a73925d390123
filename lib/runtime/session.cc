#include "runtime/session.h"

#include <utility>

#include "base/log.h"
#include "tutti/error.h"

namespace tutti::runtime {

Session::Session(World world, const Options& options)
    : options_(options), parts_(Parts::open(std::move(world), options)), inbox_(rank()) {
  executor_ = std::make_unique<Executor>(rank(), size(), parts_->protocol(), parts_->control(),
                                         parts_->engine(), parts_->data(), inbox_, tally_);
  helm_ = std::make_shared<Helm>(*executor_, parts_->bell(), parts_->crowded());
  thread_ = base::NamedThread("tutti-exec", [this] { helm_->run(); });
  parts_->on_mpi_finalise([this] { close(); });
}

Session::~Session() {
  if (fork_guard_.in_child()) {
    // The threads are the parent's. What they share stays as it is until the child exits.
    thread_.abandon();
    parts_->abandon_in_child();
    parts_->abandon_mpi();
    return;
  }
  parts_->on_mpi_finalise(nullptr);
  close();
}

void Session::close() {
  if (!thread_.joinable()) return;
  try {
    auto completion = std::make_shared<base::Completion>(1, "closing the store", helm_);
    inbox_.submit(DepartCall{completion});
    helm_->submitted();
    Pending(completion).wait();
  } catch (const Error& error) {
    base::log().debug("closing a store that had ended already: {}", error.what());
  }
  thread_.join();
  helm_->close();
  if (executor_->lost()) {
    parts_->abandon_mpi();
  } else {
    parts_->wait_for_followers(options_.stall_report_after, options_.key_timeout);
  }
  parts_->close();
}

Pending Session::submit(std::vector<TensorCall> calls, std::string what) {
  fork_guard_.check();
  auto completion = std::make_shared<base::Completion>(calls.size(), std::move(what), helm_);
  for (TensorCall& call : calls) call.completion = completion;
  inbox_.submit(std::move(calls));
  helm_->submitted();
  return Pending(std::move(completion));
}

void Session::barrier() {
  fork_guard_.check();
  const base::Lock lock(meeting_);
  auto completion = std::make_shared<base::Completion>(1, "barrier", helm_);
  inbox_.submit(BarrierCall{completion});
  helm_->submitted();
  Pending(completion).wait();
}

int Session::join() {
  fork_guard_.check();
  const base::Lock lock(meeting_);
  auto completion = std::make_shared<base::Completion>(1, "join", helm_);
  auto last = std::make_shared<int>(-1);
  inbox_.submit(JoinCall{completion, last});
  helm_->submitted();
  Pending(completion).wait();
  return *last;
}

Tensor Session::allocate(const Shape& shape, DType dtype) {
  fork_guard_.check();
  return parts_->allocate(shape, dtype);
}

Counters Session::counters() const {
  Counters counters;
  const auto sent = parts_->control().counters();
  counters.tensors_reduced = tally_.tensors_reduced;
  counters.bytes_reduced = tally_.bytes_reduced;
  counters.tensors_broadcast = tally_.tensors_broadcast;
  counters.bytes_broadcast = tally_.bytes_broadcast;
  counters.batches = tally_.batches;
  counters.bytes_between_nodes = tally_.bytes_between_nodes;
  counters.control_messages = sent.sent + sent.received;
  counters.nodes = parts_->topology().nodes.size();
  return counters;
}

}  // namespace tutti::runtime
