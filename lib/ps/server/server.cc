// The process that keeps values.
#include "ps/server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"
#include "ps/protocol/wire.h"
#include "ps/server/server_tokens.h"

namespace tutti::ps {
namespace {

constexpr auto writing_report_after = std::chrono::seconds(10);

}  // namespace

net::Reception::Audience Server::audience() {
  // If a worker comes again, it has lost the connection that it had.
  const auto expects = [this](int rank) {
    if (rank < 0 || rank >= job_.size.workers) return false;
    const ConnectionToWorker& worker = *workers_[static_cast<std::size_t>(rank)];
    return worker.keeps() || !worker.is_open();
  };
  return {expects, static_cast<std::size_t>(job_.size.workers), true};
}

base::Clock::time_point Server::wake_up_by() const {
  base::Clock::time_point by = scheduler_.next_beat();
  const auto sooner = [&by](const std::optional<base::Clock::time_point>& due) {
    by = std::min(by, due.value_or(by));
  };
  sooner(reception_.deadline());
  sooner(near_reception_.deadline());
  sooner(scheduler_.due());
  if (storage_) sooner(storage_->due());
  for (const auto& worker : workers_) sooner(worker->due());
  return by;
}

/// This comes before any process hears of the new state.
void Server::store() {
  if (!storage_) return;
  storage_->commit();
  storage_->look([this] { return state(); });
}

void Server::flush() {
  scheduler_.flush();
  for (const auto& worker : workers_) worker->flush();
  for (int rank = 0; rank < job_.size.workers; ++rank) set_reading(rank);
}

/// Stops reading a worker that is far ahead, until other workers have come nearer or it has read
/// its answers. Goes on reading it if others wait for it, or if its calls have reached their time
/// limit and it has not said so yet.
void Server::set_reading(int rank) {
  ConnectionToWorker& worker = *workers_[static_cast<std::size_t>(rank)];
  const std::uint64_t bytes = table_->waiting_bytes(rank);
  const std::uint64_t requests = table_->waiting_requests(rank);
  const std::uint64_t unread = worker.unwritten_bytes();
  const bool is_much =
      std::max(bytes, unread) > job_.most_waiting_bytes || requests > job_.most_waiting_requests;
  const bool is_asked_for = table_->received(rank) < read_on_[rank];
  const bool is_ahead = is_much && !is_asked_for && !table_->waits_for(rank);
  worker.set_reading(!is_ahead);
  if (!is_ahead || !told_ahead_.insert(rank).second) return;
  base::log().warn(
      "worker {} is far ahead: at {} {} requests and {} bytes of its calls wait for other "
      "workers, and {} bytes of answers wait until it reads them; until then the server reads no "
      "more of this worker",
      rank, describe(), requests, bytes, unread);
}

void Server::run() {
  begin();
  hear_others();
  while (!over_) {
    store();
    flush();
    const auto events = poller_.wait(wake_up_by());
    bool others_spoke = events.empty();
    for (const epoll_event& event : events) {
      if (event.data.u64 < workers_.size()) {
        // The event may only say that there is room for answers.
        if (event.events != EPOLLOUT) hear(event.data.u64);
      } else {
        others_spoke = true;
      }
    }
    if (others_spoke) hear_others();
    scheduler_.beat();
  }
}

void Server::end(const std::optional<std::string>& reason) {
  // This comes before anything else that may fail.
  say_why(reason);
  const base::Fd writer = start_last_state();
  if (reason) leave(std::nullopt);
  if (writer) wait_until_replaced(writer, !reason);
}

/// If the job is over, the server leaves it meanwhile, because the scheduler waits for that. If
/// that fails, the error is thrown when the state is written.
void Server::wait_until_replaced(const base::Fd& writer, bool hears_scheduler) {
  net::Poller poller;
  poller.add(writer, writer_token);
  if (hears_scheduler) poller.add(post_.descriptor(), scheduler_token);
  std::exception_ptr bad_news;
  auto report_at = base::Clock::now() + writing_report_after;
  while (!storage_->has_replaced()) {
    poller.wait(report_at);
    if (base::Clock::now() >= report_at) {
      base::log().warn("{} still writes its state", describe());
      report_at = base::Clock::now() + writing_report_after;
    }
    if (!hears_scheduler) continue;
    try {
      post_.hear();
    } catch (const Error&) {
      bad_news = std::current_exception();
      poller.remove(post_.descriptor());
      hears_scheduler = false;
    }
  }
  if (bad_news) std::rethrow_exception(bad_news);
}

/// Writes the last state, for another store. If the server is told to end, it may be killed soon,
/// so the write begins at once.
base::Fd Server::start_last_state() {
  if (!storage_ || !has_begun_) return {};
  if (is_durable() && !storage_->has_failed()) storage_->sync();
  if (is_durable() || !storage_->has_changed()) return {};
  if (over_ && !has_lost_) take_leaves();
  return storage_->replace([this] { return state(); });
}

/// The scheduler may say that the store is over before the last workers' goodbyes are read. With
/// these goodbyes the state is known to be the last one.
void Server::take_leaves() {
  for (int worker = 0; worker < job_.size.workers; ++worker) {
    table_->receive(worker, Goodbye{});
  }
}

void Server::say_why(const std::optional<std::string>& reason) noexcept {
  try {
    if (reason) scheduler_.send(Stopping{*reason});
    scheduler_.flush();
  } catch (const std::exception& error) {
    base::log().debug("the scheduler was not told: {}", error.what());
  }
}

void Server::leave(const std::optional<std::string>& reason) noexcept {
  say_why(reason);
  try {
    scheduler_.close();
  } catch (const std::exception& error) {
    base::log().debug("the connection to the scheduler was not closed: {}", error.what());
  }
}

/// Hears everything except the workers' requests.
void Server::hear_others() {
  post_.check_terminated();
  welcome(reception_);
  welcome(near_reception_);
  scheduler_.receive([this](const FromScheduler& message) { hear_scheduler(message); });
}

void Server::hear_scheduler(const FromScheduler& message) {
  over_ = over_ || std::holds_alternative<End>(message);
  told_to_begin_ = told_to_begin_ || std::holds_alternative<Begin>(message);
  if (const auto* const located = std::get_if<Located>(&message)) located_ = *located;
  if (const auto* const refused = std::get_if<Refused>(&message)) throw_failure(refused->failure);
  if (const auto* const on = std::get_if<ReadOn>(&message)) read_on_[on->rank] = on->sequence;
  const auto* const lost = std::get_if<Lost>(&message);
  if (lost == nullptr) return;
  has_lost_ = true;
  if (lost->role == Role::scheduler) throw_failure(failure_of(*lost));
  if (lost->role == Role::worker) lose_worker(*lost);
}

void Server::lose_worker(const Lost& lost) {
  const net::Bytes message = message_of(lost);
  note({.worker = lost.rank, .is_loss = true, .message = message});
  table_->lose(lost.rank, failure_of(lost));
  // Messages that are left to read do not count.
  workers_[static_cast<std::size_t>(lost.rank)]->disconnect();
}

void Server::note(const JournalRecord& event) {
  if (storage_) storage_->append(event.head(), event.message);
}

void Server::welcome(net::Reception& reception) {
  for (net::ProvenPeer& peer : reception.advance()) {
    const int rank = peer.rank;
    ConnectionToWorker& worker = *workers_[static_cast<std::size_t>(rank)];
    if (worker.is_open() && !worker.keeps()) continue;
    try {
      worker.connect(std::move(peer));
    } catch (const Error& error) {
      base::log().warn("{} closes the connection of worker {}: {}", describe(), rank, error.what());
    }
  }
}

void Server::hear(std::size_t rank) {
  ConnectionToWorker& worker = *workers_[rank];
  try {
    worker.receive([&](const ToServer& request, net::ConstBytes message) {
      note({.worker = static_cast<int>(rank),
            .acknowledged = worker.delivery().acknowledged(),
            .message = message});
      table_->receive(static_cast<int>(rank), request);
    });
  } catch (const Error& error) {
    if (!survives(error)) throw;
    refusals_.try_emplace(rank, describe(), fmt::format("of worker {}", rank))
        .first->second.add(worker.peer_address(), error.what());
    worker.disconnect();
  }
}

}  // namespace tutti::ps
