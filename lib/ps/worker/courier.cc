// The worker's thread: the messages that it sends. courier_queue.cc has the waits before that,
// courier_events.cc the messages that it receives, and courier_servers.cc its connections to
// servers.
#include "ps/worker/courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "ps/protocol/rows.h"
#include "tutti/shard.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

// Tokens of epoll events. A server's rank is the token of its connection. These two are larger.
constexpr std::uint64_t workers_scheduler_token = std::uint64_t{1} << 32;
constexpr std::uint64_t bell_token = workers_scheduler_token + 1;

using base::Clock;

/// A connection gets more bytes only if it has fewer than this left to write. A more urgent piece
/// waits for these bytes, and for the end of a message.
constexpr std::size_t most_unwritten_bytes = std::size_t{256} << 10;
/// The most bytes that go to one server in a turn. The server begins with them while others follow.
constexpr std::size_t most_bytes_at_once = std::size_t{1} << 20;

/// The scheduler tells why it has ended. This is the most time that the reason may take to arrive.
constexpr auto cause_is_told = std::chrono::seconds(1);

/// Says why the pieces of a task do not fit into their messages. Empty if they fit.
std::string objection_to(const Task& task, std::size_t pieces) {
  const std::size_t largest = (task.shape.count() + pieces - 1) / pieces;
  if (largest > most_elements_bytes / size_of(task.dtype)) {
    return fmt::format(
        "{} {} does not fit the key's pieces ({}, of at most {} bytes): a key keeps "
        "the pieces of its first value, and for lamb has one; use another key",
        name(task.dtype), task.shape.describe(), pieces, most_elements_bytes);
  }
  if (task.rows && task.rows->size() > most_elements_bytes / sizeof(std::int64_t)) {
    return fmt::format("{} rows are too many for one call; ask for them in several",
                       task.rows->size());
  }
  return "";
}

/// For a pull of rows: the pieces for which the worker asks servers.
std::vector<std::uint32_t> pieces_with_rows(const Task& task, std::uint32_t pieces) {
  std::vector<std::uint32_t> with;
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const Shard part = shard(task.shape.count(), static_cast<int>(piece), static_cast<int>(pieces));
    if (count_of_rows(*task.rows, task.shape, part) > 0) with.push_back(piece);
  }
  // One server must say whether the value is there.
  if (with.empty()) with.push_back(0);
  return with;
}

}  // namespace

Courier::Courier(Worker& worker, const Job& job, const Options& options, Membership& membership)
    : worker_(worker),
      membership_(membership),
      job_(job),
      interface_(options.interface),
      encrypts_(options.encrypt),
      patience_(options.create_timeout),
      terms_(Channel::Terms::of(job)),
      // If the scheduler has ended, it has told this process why.
      scheduler_(job, options, poller_, workers_scheduler_token,
                 [&membership] { membership.check(); }),
      limits_{
          .stall_report_after = options.stall_report_after,
          .timeout = options.key_timeout,
          .answer_within = std::max(options.key_timeout, options.heartbeat_timeout),
          .send = [this](std::size_t server, const ToServer& said) { send_about(server, said); }} {
  poller_.add(worker_.bell_.descriptor(), bell_token);
}

Welcome Courier::register_worker(bool asynchronous, int staleness) {
  // Another worker may have got the rank that this one wants. Each worker keeps the rank of its
  // first store.
  const int rank = membership_.rank >= 0 ? membership_.rank : job_.wanted_rank;
  try {
    return scheduler_.join({.role = Role::worker,
                            .rank = rank,
                            .workers = job_.size.workers,
                            .servers = job_.size.servers,
                            .version = version(),
                            .asynchronous = asynchronous,
                            .address = {},
                            .port = 0,
                            .staleness = staleness,
                            .membership = membership_.number()});
  } catch (const Error& error) {
    // If the scheduler ended before it received this message, it tells the process why, unless it
    // was killed.
    if (error.code() == ErrorCode::peer_lost && scheduler_.has_ended()) {
      scheduler_.or_word_of_end([this] { membership_.check(cause_is_told); });
    }
    throw;
  }
}

Welcome Courier::join(bool asynchronous, int staleness) {
  Welcome welcome = register_worker(asynchronous, staleness);
  scheduler_.beat_apart();
  rank_ = membership_.rank = welcome.rank;
  asynchronous_ = asynchronous;
  base::set_log_rank(rank_);
  if (!welcome.doubt.empty()) base::log().warn("{}", welcome.doubt);
  connect(welcome);
  outboxes_.resize(servers_.size());
  recalled_.resize(servers_.size());
  requests_ =
      std::make_unique<OutstandingRequests>(rank_, servers_.size(), limits_, worker_.tally_);
  return welcome;
}

void Courier::run() noexcept {
  try {
    loop();
    throw Error(ErrorCode::aborted, "the store is closed");
  } catch (...) {
    end_with(std::current_exception());
  }
}

void Courier::abandon() {
  scheduler_.abandon();
  for (const auto& server : servers_) server->abandon();
}

void Courier::loop() {
  while (!over_) {
    worker_.bell_.arm();
    // The poller must listen first. Otherwise the bell might ring while nobody hears it.
    if (worker_.stop_) return;
    take_posted();
    advance();
    finish_leaving();
    flush();
    for (const epoll_event& event : poller_.wait(wake_up_by())) {
      on_event(event.data.u64);
    }
    scheduler_.receive([this](const FromScheduler& message) { hear_scheduler(message); });
    scheduler_.beat();
    look(Clock::now());
  }
}

void Courier::on_event(std::uint64_t token) {
  if (token == bell_token) {
    worker_.bell_.silence();
  } else if (token != workers_scheduler_token) {
    hear(token);
  }
}

void Courier::take_posted() {
  for (WorkItem& submission : worker_.take_posted()) {
    if (const auto* const list = std::get_if<TaskList>(&submission)) locate(*list);
    queue_.push_back(std::move(submission));
  }
}

void Courier::locate(const TaskList& list) {
  std::vector<Locate::Value> values;
  for (const Task& task : list.tasks) {
    values.push_back({task.key, task.shape.count(), task.dtype, worker_.keeps_whole_});
  }
  ask_for(values);
}

/// Asks once for each key.
void Courier::ask_for(const std::vector<Locate::Value>& values) {
  Locate locate;
  for (const Locate::Value& value : values) {
    if (placed_.contains(value.key) || !asked_.insert(value.key).second) continue;
    locate.values.push_back(value);
  }
  if (!locate.values.empty()) scheduler_.send(locate);
}

bool Courier::send(TaskList& list) {
  const auto is_placed = [this](const Task& task) { return placed_.contains(task.key); };
  if (!std::ranges::all_of(list.tasks, is_placed)) return false;
  for (Task& task : list.tasks) add_task(std::move(task), list.completion);
  return true;
}

bool Courier::send(const Barrier& barrier) {
  barrier_ = {barrier.completion, Clock::now(), limits_.stall_report_after};
  scheduler_.send(BarrierArrival{});
  return true;
}

bool Courier::send(const Leaving& leaving) {
  if (!has_sent_tasks()) return false;
  leaving_ = {leaving.completion, Clock::now(), limits_.stall_report_after};
  for (std::size_t server = 0; server < servers_.size(); ++server) send_to(server, Goodbye{});
  scheduler_.send(Goodbye{});
  return true;
}

void Courier::add_task(Task task, const std::shared_ptr<base::Completion>& completion) {
  const Places& where = placed_.at(task.key);
  const auto call = std::make_shared<InFlightCall>();
  call->key = task.key;
  call->kind = task.kind;
  call->is_of_one = asynchronous_ && task.kind == Kind::push;
  call->what = task.describe();
  call->priority = task.priority;
  const std::uint32_t pieces = where.pieces;
  std::vector<std::uint32_t> concerned(pieces);
  std::iota(concerned.begin(), concerned.end(), 0U);
  if (const std::string why = objection_to(task, pieces); !why.empty()) {
    // The other workers may have sent their parts.
    const std::string text = call->what + ": " + why;
    call->withdrawn = Failure{ErrorCode::invalid_argument,
                              fmt::format("key {}: worker {} could not bring its part: {}",
                                          task.key.describe(), rank_, text),
                              {rank_}};
    completion->finish(std::make_exception_ptr(
        Error(ErrorCode::invalid_argument, text, {.key = task.key, .ranks = {}})));
  } else {
    if (task.rows) concerned = pieces_with_rows(task, pieces);
    call->completion = completion;
    call->task = std::move(task);
    requests_->begin(call, concerned.size());
  }
  for (const std::uint32_t piece : concerned) {
    outboxes_[static_cast<std::size_t>(where.server_of(piece))].add({call, piece, pieces});
  }
}

bool Courier::has_sent_tasks() const {
  return std::ranges::all_of(outboxes_, [](const Outbox& outbox) { return outbox.empty(); });
}

bool Courier::takes_more(std::size_t server) {
  const ConnectionToServer& link = *servers_[server];
  return !outboxes_[server].empty() && !outboxes_[server].next().call->is_undecided &&
         link.is_open() && link.unwritten_bytes() < most_unwritten_bytes &&
         requests_->window().lets_through(server);
}

/// Passes the most urgent pieces to the connection while it has little to write.
void Courier::fill(std::size_t server) {
  ConnectionToServer& link = *servers_[server];
  Outbox& outbox = outboxes_[server];
  std::size_t sent = 0;
  while (takes_more(server)) {
    if (sent >= most_bytes_at_once) {
      has_more_to_send_ = true;
      return;
    }
    const Outbox::Entry entry = outbox.take();
    if (entry.call->withdrawn) {
      sent += withdraw(server, entry);
    } else if (entry.call->completion) {
      sent += send_piece(server, entry);
    }
    if (link.unwritten_bytes() >= most_unwritten_bytes) link.flush();
  }
}

/// Tells the server that the call fails. Other pieces of the call, and those of other workers, may
/// have been sent. The worker's next contribution must not stand for this one.
std::size_t Courier::withdraw(std::size_t server, const Outbox::Entry& entry) {
  const InFlightCall& call = *entry.call;
  if (!call.kind) return 0;
  const std::uint64_t sequence = call.completion
                                     ? requests_->add(server, entry.call, entry.piece, entry.pieces)
                                     : requests_->number(server);
  if (call.completion) recalled_[server].last = sequence;
  const PieceName name{*call.key, entry.piece, entry.pieces};
  return send_to(server, Withdrawal{sequence, name, *call.kind, *call.withdrawn});
}

/// Sends a message that the server has to read, even if it has stopped reading this worker because
/// it is far ahead.
void Courier::send_about(std::size_t server, const ToServer& said) {
  if (const auto* const recall = std::get_if<Recall>(&said)) {
    recalled_[server].last = recall->sequence;
  }
  send_to(server, said);
}

/// The scheduler tells the servers, because their connections to this worker may be full.
void Courier::ask_to_read_on() {
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    Recalled& recalled = recalled_[server];
    if (recalled.last == recalled.said) continue;
    recalled.said = recalled.last;
    scheduler_.send(ReadOn{static_cast<int>(server), recalled.last});
  }
}

std::size_t Courier::send_piece(std::size_t server, const Outbox::Entry& entry) {
  const Task& task = entry.call->task;
  // Elements in shared memory do not fill the link on which another worker's have to pass.
  const auto number = [&](std::size_t travelling) {
    return requests_->add(server, entry.call, entry.piece, entry.pieces,
                          servers_[server]->shares_memory() ? 0 : travelling);
  };
  const PieceName name{task.key, entry.piece, entry.pieces};
  const Shard mine =
      shard(task.shape.count(), static_cast<int>(entry.piece), static_cast<int>(entry.pieces));
  const std::size_t element = size_of(task.dtype);
  const std::size_t bytes = mine.count() * element;
  if (!task.kind) {
    const std::size_t answer_bytes = task.rows ? 0 : bytes;
    Pull pull{number(answer_bytes), name, task.dtype, task.shape, {}};
    if (task.rows) pull.rows = rows_within(*task.rows, task.shape, mine);
    return send_to(server, pull, answer_bytes);
  }
  Contribution said{0, name, *task.kind, task.op, task.root, task.dtype, task.shape};
  if (brings_data(said, rank_)) {
    said.data = {task.in.as<const std::byte>() + mine.begin * element, bytes};
    compressor_.compress(said, task.compression, mine);
  }
  const bool stays = said.compression.encoding == Encoding::none;
  const std::size_t answer_bytes = wants_data(said, rank_) ? bytes : 0;
  said.sequence = number(std::max(said.data.size(), answer_bytes));
  return send_to(server, said, answer_bytes, stays);
}

std::size_t Courier::send_to(std::size_t server, const ToServer& message, std::size_t answer_bytes,
                             bool stays) {
  const std::size_t bytes = servers_[server]->send(message, answer_bytes, stays);
  worker_.tally_.bytes_sent += bytes;
  return bytes;
}

void Courier::flush() {
  has_more_to_send_ = false;
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    fill(server);
    servers_[server]->flush();
  }
  ask_to_read_on();
  scheduler_.flush();
}

}  // namespace tutti::ps
