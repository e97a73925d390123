// The worker's thread: what it sends. courier_events.cc has what it hears.
#include "ps/courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/interfaces.h"
#include "net/message_stream.h"
#include "net/sockets.h"
#include "ps/wire.h"
#include "tutti/shard.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

// Tokens of epoll events. A server's rank is the token of its connection; these two are larger.
constexpr std::uint64_t scheduler_token = std::uint64_t{1} << 32;
constexpr std::uint64_t bell_token = scheduler_token + 1;

using base::Clock;

/// Room for the table in front of the elements.
constexpr std::size_t most_piece_bytes = net::max_message_bytes - (std::size_t{1} << 16);

}  // namespace

Courier::Courier(Worker& worker, const Job& job, const Options& options)
    : worker_(worker),
      job_(job),
      interface_(options.interface),
      scheduler_(job, options, poller_, scheduler_token),
      limits_{options.stall_report_after, options.key_timeout} {
  poller_.add(worker_.bell_.descriptor(), bell_token);
}

Welcome Courier::join(bool asynchronous) {
  Welcome welcome = scheduler_.join({.role = Role::worker,
                                     .rank = job_.wanted_rank,
                                     .workers = job_.company.workers,
                                     .servers = job_.company.servers,
                                     .version = version(),
                                     .asynchronous = asynchronous,
                                     .address = {},
                                     .port = 0});
  rank_ = welcome.rank;
  asynchronous_ = asynchronous;
  base::set_log_rank(rank_);
  connect(welcome);
  requests_ = std::make_unique<Requests>(servers_.size(), limits_, worker_.tally_);
  return welcome;
}

void Courier::connect(const Welcome& welcome) {
  for (const Welcome::Server& server : welcome.servers) {
    const auto token = static_cast<std::uint64_t>(servers_.size());
    net::ProvenPeer peer = reach(server, static_cast<int>(token));
    net::send_without_delay(peer.socket);
    servers_.push_back(
        std::make_unique<net::LinkEnd>(std::move(peer), poller_, token, net::Bytes()));
  }
}

net::ProvenPeer Courier::reach(const Welcome::Server& server, int rank) {
  const std::string source = interface_.empty() ? "" : net::reachable_addresses(interface_).front();
  check_may_use(job_, server.address);
  std::vector<net::Way> ways;
  ways.push_back({net::start_connecting(server.address, server.port, source),
                  fmt::format("{}:{}", server.address, server.port)});
  const net::Identity me{rank_, job_.secret, server_purpose, fmt::format("worker {}", rank_),
                         fmt::format("server {}", rank)};
  // Meanwhile the scheduler says who is lost.
  const auto look = [this] {
    scheduler_.receive([this](const FromScheduler& message) { hear_scheduler(message); });
    scheduler_.beat();
  };
  return net::prove_to(std::move(ways), me, rank, {scheduler_.deadline(), look});
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
  Locate locate;
  for (const Task& task : list.tasks) {
    if (placed_.contains(task.key) || !asked_.insert(task.key).second) continue;
    locate.values.push_back({task.key, task.shape.count(), task.dtype});
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
  for (Task& task : list.tasks) send_task(std::move(task), list.completion);
  return true;
}

bool Courier::send(const Barrier& barrier) {
  barrier_ = {barrier.completion, Clock::now(), false};
  scheduler_.send(BarrierAsked{});
  return true;
}

bool Courier::send(const Setting& setting) {
  const auto call = std::make_shared<Call>();
  call->what = "set_optimizer";
  call->completion = setting.completion;
  call->begun = Clock::now();
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    send_to(server, SetOptimizer{requests_->add(server, call, 0, 1), setting.optimizer});
  }
  return true;
}

bool Courier::send(const Leaving& leaving) {
  leaving_ = {leaving.completion, Clock::now(), false};
  for (std::size_t server = 0; server < servers_.size(); ++server) send_to(server, Goodbye{});
  scheduler_.send(Goodbye{});
  return true;
}

void Courier::send_task(Task task, const std::shared_ptr<base::Completion>& completion) {
  const std::vector<int>& servers = placed_.at(task.key);
  const std::size_t largest = (task.shape.count() + servers.size() - 1) / servers.size();
  if (largest > most_piece_bytes / size_of(task.dtype)) {
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
  call->completion = completion;
  call->begun = Clock::now();
  call->task = std::move(task);
  const auto pieces = static_cast<std::uint32_t>(servers.size());
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    send_piece(call, static_cast<std::size_t>(servers[piece]), piece, pieces);
  }
}

void Courier::send_piece(const std::shared_ptr<Call>& call, std::size_t server, std::uint32_t piece,
                         std::uint32_t pieces) {
  const Task& task = call->task;
  const std::uint64_t sequence = requests_->add(server, call, piece, pieces);
  const PieceName name{task.key, piece, pieces};
  if (!task.kind) return send_to(server, Pull{sequence, name, task.dtype, task.shape});
  Contribution said{sequence, name, *task.kind, task.op, task.root, task.dtype, task.shape, {}};
  if (brings_data(said, rank_)) {
    const Shard mine = shard(task.shape.count(), static_cast<int>(piece), static_cast<int>(pieces));
    const std::size_t element = size_of(task.dtype);
    said.data = {task.in.as<const std::byte>() + mine.begin * element, mine.count() * element};
  }
  send_to(server, said);
}

void Courier::send_to(std::size_t server, const ToServer& message) {
  const std::vector<std::byte> bytes = encode(message);
  servers_[server]->queue(bytes);
}

void Courier::flush() {
  scheduler_.flush();
  for (const auto& server : servers_) server->flush();
}

}  // namespace tutti::ps
