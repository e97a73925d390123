// The worker's thread: what it sends. courier_events.cc has what it hears.
#include "ps/courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/interfaces.h"
#include "net/sockets.h"
#include "ps/rows.h"
#include "tutti/shard.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

// Tokens of epoll events. A server's rank is the token of its connection; these two are larger.
constexpr std::uint64_t scheduler_token = std::uint64_t{1} << 32;
constexpr std::uint64_t bell_token = scheduler_token + 1;

using base::Clock;

/// What a connection may have to write before more is handed to it: what is more urgent waits for
/// that, and for the end of a message.
constexpr std::size_t most_unwritten_bytes = std::size_t{256} << 10;
/// So many bytes are handed over to one server in a turn: it begins with them while others follow.
constexpr std::size_t most_bytes_at_once = std::size_t{1} << 20;

}  // namespace

Courier::Courier(Worker& worker, const Job& job, const Options& options)
    : worker_(worker),
      job_(job),
      interface_(options.interface),
      encrypts_(options.encrypt),
      patience_(options.create_timeout),
      terms_(Channel::Terms::of(job, options)),
      scheduler_(job, options, poller_, scheduler_token),
      limits_{options.stall_report_after, options.key_timeout, [this] {
                for (const auto& server : servers_) server->keep_all();
              }} {
  poller_.add(worker_.bell_.descriptor(), bell_token);
}

Welcome Courier::join(bool asynchronous, int staleness) {
  Welcome welcome = scheduler_.join({.role = Role::worker,
                                     .rank = job_.wanted_rank,
                                     .workers = job_.company.workers,
                                     .servers = job_.company.servers,
                                     .version = version(),
                                     .asynchronous = asynchronous,
                                     .address = {},
                                     .port = 0,
                                     .staleness = staleness});
  rank_ = welcome.rank;
  asynchronous_ = asynchronous;
  base::set_log_rank(rank_);
  connect(welcome);
  outboxes_.resize(servers_.size());
  requests_ = std::make_unique<Requests>(servers_.size(), limits_, worker_.tally_);
  return welcome;
}

void Courier::connect(const Welcome& welcome) {
  places_ = welcome.servers;
  for (std::size_t server = 0; server < places_.size(); ++server) {
    servers_.push_back(std::make_unique<ServerEnd>(
        poller_, std::uint64_t{server},
        Channel::Ends{fmt::format("worker {}", rank_), fmt::format("server {}", server)},
        terms_for(places_[server])));
    try {
      reach(server, scheduler_.deadline());
    } catch (const Error& error) {
      const bool may_come = places_[server].durable && error.code() == ErrorCode::peer_lost;
      if (bad_news_ || !may_come) throw;
      wait_for(server, error.what());
    }
  }
}

Channel::Terms Courier::terms_for(const Welcome::Server& server) const {
  Channel::Terms terms = terms_;
  terms.delivery.keeps = server.keeps;
  return terms;
}

/// On this machine, where memory can be shared, if the server is here. What is kept for another
/// connection travels in messages.
void Courier::reach(std::size_t server, Clock::time_point deadline) {
  const Welcome::Server place = places_[server];
  if (!place.keeps) {
    if (auto near = net::connect_nearby(job_.nearby_name(place.address, place.port))) {
      return reach({std::move(near), "this machine"}, server, deadline);
    }
  }
  const std::string source = interface_.empty() ? "" : net::reachable_addresses(interface_).front();
  check_may_use(job_, place.address);
  reach({net::start_connecting(place.address, place.port, source),
         fmt::format("{}:{}", place.address, place.port)},
        server, deadline);
}

void Courier::reach(net::Way way, std::size_t server, Clock::time_point deadline) {
  std::vector<net::Way> ways;
  ways.push_back(std::move(way));
  const net::Identity me{.rank = rank_,
                         .secret = job_.secret,
                         .purpose = server_purpose,
                         .name = fmt::format("worker {}", rank_),
                         .name_of_listener = fmt::format("server {}", server),
                         .encrypts = encrypts_};
  // Meanwhile the scheduler says who is lost.
  const auto look = [this] {
    try {
      scheduler_.receive([this](const FromScheduler& message) { hear_scheduler(message); });
      scheduler_.beat();
    } catch (const Error&) {
      bad_news_ = std::current_exception();
      throw;
    }
  };
  const base::Patience patience(deadline, look);
  servers_[server]->connect(net::prove_to(std::move(ways), me, static_cast<int>(server), patience),
                            patience);
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
  while (!over_ && !worker_.stop_) {
    worker_.bell_.arm();
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
  } else if (token != scheduler_token) {
    hear(token);
  }
}

void Courier::take_posted() {
  for (Submission& submission : worker_.take_posted()) {
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

/// Once for each key.
void Courier::ask_for(const std::vector<Locate::Value>& values) {
  Locate locate;
  for (const Locate::Value& value : values) {
    if (placed_.contains(value.key) || !asked_.insert(value.key).second) continue;
    locate.values.push_back(value);
  }
  if (!locate.values.empty()) scheduler_.send(locate);
}

void Courier::advance() {
  while (!queue_.empty()) {
    if (!std::visit([this](auto& one) { return send(one); }, queue_.front())) return;
    queue_.pop_front();
  }
}

bool Courier::send(TaskList& list) {
  const auto is_placed = [this](const Task& task) { return placed_.contains(task.key); };
  if (!std::ranges::all_of(list.tasks, is_placed)) return false;
  for (Task& task : list.tasks) add_task(std::move(task), list.completion);
  return true;
}

bool Courier::send(const Barrier& barrier) {
  barrier_ = {barrier.completion, Clock::now(), false};
  scheduler_.send(BarrierAsked{});
  return true;
}

bool Courier::send(const Leaving& leaving) {
  if (!has_sent_tasks()) return false;
  leaving_ = {leaving.completion, Clock::now(), false};
  for (std::size_t server = 0; server < servers_.size(); ++server) send_to(server, Goodbye{});
  scheduler_.send(Goodbye{});
  return true;
}

void Courier::add_task(Task task, const std::shared_ptr<base::Completion>& completion) {
  const std::vector<int>& servers = placed_.at(task.key);
  const std::size_t largest = (task.shape.count() + servers.size() - 1) / servers.size();
  if (largest > most_elements_bytes / size_of(task.dtype)) {
    completion->finish(std::make_exception_ptr(
        Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} {} is too large for the {} pieces that the key was given when it "
                          "was smaller; use another key",
                          task.describe(), name(task.dtype), task.shape.describe(), servers.size()),
              {.key = task.key, .ranks = {}})));
    return;
  }
  const auto call = std::make_shared<Call>();
  call->key = task.key;
  call->what = task.describe();
  call->priority = task.priority;
  call->completion = completion;
  call->task = std::move(task);
  const auto pieces = static_cast<std::uint32_t>(servers.size());
  requests_->begin(call, pieces);
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    outboxes_[static_cast<std::size_t>(servers[piece])].add({call, piece, pieces});
  }
}

bool Courier::has_sent_tasks() const {
  return std::ranges::all_of(outboxes_, [](const Outbox& outbox) { return outbox.empty(); });
}

/// Hands the most urgent pieces to the connection while it has little to write.
void Courier::fill(std::size_t server) {
  ServerEnd& link = *servers_[server];
  Outbox& outbox = outboxes_[server];
  std::size_t sent = 0;
  while (!outbox.empty() && link.is_open() && link.unwritten_bytes() < most_unwritten_bytes) {
    if (sent >= most_bytes_at_once) {
      has_more_to_send_ = true;
      return;
    }
    const Outbox::Entry entry = outbox.take();
    // Nobody waits any more for a call that has timed out.
    if (entry.call->completion) sent += send_piece(server, entry);
    if (link.unwritten_bytes() >= most_unwritten_bytes) link.flush();
  }
}

std::size_t Courier::send_piece(std::size_t server, const Outbox::Entry& entry) {
  const Task& task = entry.call->task;
  const std::uint64_t sequence = requests_->add(server, entry.call, entry.piece, entry.pieces);
  const PieceName name{task.key, entry.piece, entry.pieces};
  const Shard mine =
      shard(task.shape.count(), static_cast<int>(entry.piece), static_cast<int>(entry.pieces));
  const std::size_t element = size_of(task.dtype);
  const std::size_t bytes = mine.count() * element;
  if (!task.kind) {
    Pull pull{sequence, name, task.dtype, task.shape, {}};
    if (task.rows) pull.rows = rows_within(*task.rows, task.shape, mine);
    return send_to(server, pull, task.rows ? 0 : bytes);
  }
  Contribution said{sequence, name, *task.kind, task.op, task.root, task.dtype, task.shape};
  if (brings_data(said, rank_)) {
    said.data = {task.in.as<const std::byte>() + mine.begin * element, bytes};
    compressor_.compress(said, task.compression, mine);
  }
  const bool stays = said.compression.encoding == Encoding::none;
  return send_to(server, said, wants_data(said, rank_) ? bytes : 0, stays);
}

std::size_t Courier::send_to(std::size_t server, const ToServer& message, std::size_t answer_bytes,
                             bool stays) {
  const std::size_t bytes = servers_[server]->send(message, answer_bytes, stays);
  worker_.tally_.bytes_sent += bytes;
  return bytes;
}

void Courier::flush() {
  scheduler_.flush();
  has_more_to_send_ = false;
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    fill(server);
    servers_[server]->flush();
  }
}

}  // namespace tutti::ps
