#include "ps/worker/worker.h"

#include <algorithm>
#include <utility>

#include "base/heap.h"
#include "base/log.h"
#include "optimizer/catalogue.h"
#include "ps/worker/courier.h"

namespace tutti::ps {
namespace {

/// Calls `begin`, and logs its failure. The launcher reads in the log which missing process began
/// this failure.
template <typename Begin>
auto logged(const Begin& begin) {
  try {
    return begin();
  } catch (const Error& error) {
    base::log().error("{}", error.what());
    throw;
  }
}

}  // namespace

Worker::Worker(const Job& job, bool asynchronous, const Options& options)
    : size_(job.size.workers),
      membership_(
          logged([&] { return Memberships::Loan(Memberships::of_process(), job, options); })),
      bell_(net::EpollBell::make_descriptor(), asleep_) {
  // If no worker may be ahead, the workers go together.
  const bool together = !asynchronous || options.staleness == 0;
  welcome_ = logged([&] {
    courier_ = std::make_unique<Courier>(*this, job, options, *membership_);
    return courier_->join(!together, together ? unbounded : options.staleness.value_or(unbounded));
  });
  thread_ = base::NamedThread("tutti-ps-worker", [this] {
    courier_->run();
    // The store may live on for long, so its memory is returned.
    base::return_memory_of(courier_->keys(), [this] { courier_.reset(); });
  });
}

Worker::~Worker() {
  stop_ = true;
  bell_.ring();
  thread_.join();
}

void Worker::post(WorkItem submission) {
  {
    const base::Lock lock(mutex_);
    if (ended_) {
      told_ = true;
      std::rethrow_exception(ended_);
    }
    posted_.push_back(std::move(submission));
  }
  bell_.ring();
}

void Worker::post_and_wait(WorkItem submission,
                           const std::shared_ptr<base::Completion>& completion) {
  post(std::move(submission));
  completion->wait_until(base::Clock::time_point::max());
}

std::vector<WorkItem> Worker::take_posted() {
  const base::Lock lock(mutex_);
  return std::exchange(posted_, {});
}

std::vector<WorkItem> Worker::end_with(const std::exception_ptr& failure) {
  const base::Lock lock(mutex_);
  ended_ = failure;
  return std::exchange(posted_, {});
}

void Worker::note_ended(const std::shared_ptr<base::Completion>& call) {
  const base::Lock lock(mutex_);
  ended_calls_.push_back(call);
}

bool Worker::has_told() {
  const base::Lock lock(mutex_);
  return told_ ||
         std::ranges::any_of(ended_calls_, [](const auto& call) { return call->is_error_seen(); });
}

void Worker::submit(std::vector<Task> tasks, std::shared_ptr<base::Completion> completion) {
  post(TaskList{std::move(tasks), std::move(completion)});
}

void Worker::barrier() {
  const base::Lock lock(meeting_);
  const auto completion = std::make_shared<base::Completion>(1, "barrier");
  post_and_wait(Barrier{completion}, completion);
}

void Worker::change(Setting setting, std::string what, std::map<Key, optimizer::State> states,
                    bool keeps_whole) {
  const auto completion = std::make_shared<base::Completion>(1, std::move(what));
  post_and_wait(Change{std::move(setting), std::move(states), completion, keeps_whole}, completion);
}

void Worker::set_optimizer(const Optimizer& optimizer) {
  // If the optimizer is invalid, the servers tell all workers.
  change(SetOptimizer{0, optimizer}, "set_optimizer");
  keeps_whole_ = needs_whole(optimizer);
}

/// Whether this optimizer needs whole values. New keys are kept whole while it is set.
bool Worker::needs_whole(const Optimizer& optimizer) {
  return optimizer::choose(optimizer).rule->needs_whole();
}

void Worker::set_compression(const Compression& compression) {
  change(SetCompression{0, compression}, "set_gradient_compression");
}

optimizer::Saved Worker::ask(bool wants_states) {
  const auto completion = std::make_shared<base::Completion>(
      1, wants_states ? "save_optimizer_states"
                      : "load_optimizer_states (it has loaded, and asks for the optimizer)");
  const auto pieces = std::make_shared<std::vector<StateOfPiece>>();
  post_and_wait(Survey{pieces, completion, wants_states}, completion);
  return joined(*pieces);
}

void Worker::load_states(std::optional<optimizer::Saved> saved, std::optional<Failure> failure) {
  LoadStates load{.failure = std::move(failure)};
  std::map<Key, optimizer::State> states;
  if (saved) {
    load.rule = std::move(saved->rule);
    load.optimizer = std::move(saved->optimizer);
    states = std::move(saved->states);
  }
  // If a load fails, the optimizer stays, and so does the way in which other keys are kept.
  const bool whole = load.optimizer ? needs_whole(*load.optimizer) : keeps_whole_.load();
  change(load, "load_optimizer_states", std::move(states), whole);
  // Only worker 0 has read to which optimizer the states belong, so this asks the servers.
  keeps_whole_ = needs_whole(*ask(false).optimizer);
}

void Worker::close() {
  const base::Lock lock(meeting_);
  if (std::exchange(left_, true)) return;
  const bool told = has_told();
  const auto completion = std::make_shared<base::Completion>(1, "leaving the job");
  try {
    post_and_wait(Leaving{completion}, completion);
  } catch (const std::exception& error) {
    end_thread();
    if (!told) throw;
    base::log().debug("left a job that had ended already: {}", error.what());
  }
  end_thread();
}

/// The thread is about to end, because leaving is over.
void Worker::end_thread() {
  thread_.join();
  membership_.give_back();
}

Counters Worker::counters() const {
  Counters counters;
  counters.tensors_reduced = tally_.tensors_reduced;
  counters.bytes_reduced = tally_.bytes_reduced;
  counters.tensors_broadcast = tally_.tensors_broadcast;
  counters.bytes_broadcast = tally_.bytes_broadcast;
  counters.bytes_between_nodes = tally_.bytes_sent;
  counters.nodes = static_cast<std::uint64_t>(welcome().place.hosts);
  return counters;
}

void Worker::abandon() {
  thread_.abandon();
  if (courier_) courier_->abandon();
}

}  // namespace tutti::ps
