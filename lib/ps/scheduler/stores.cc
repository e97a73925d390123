#include "ps/scheduler/stores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "base/wait_limits.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

std::string text_of(const std::vector<Registry::Present>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const auto& worker : workers) {
    names.push_back(fmt::format("worker {}{}", worker.rank, worker.place));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<int> ranks_of(const std::vector<Registry::Present>& workers) {
  std::vector<int> ranks;
  ranks.reserve(workers.size());
  for (const auto& worker : workers) ranks.push_back(worker.rank);
  return ranks;
}

}  // namespace

Stores::Stores(JobSize size, std::uint64_t big_count, Registry::Send send, NewId new_id)
    : size_(size),
      big_count_(big_count),
      send_(std::move(send)),
      new_id_(std::move(new_id)),
      registry_(std::make_unique<Registry>(size_, big_count_, send_, new_id_())) {}

bool Stores::is_gathering() const {
  if (registry_->is_complete() || registry_->is_over()) return false;
  return former_.empty() || !registry_->present(Role::worker).empty();
}

std::string Stores::describe(Node node) const {
  if (is_process(node)) return "a worker's process";
  const auto idle = idle_.find(node);
  return idle == idle_.end() ? registry_->describe(node)
                             : fmt::format("server {}", idle->second.rank);
}

/// Takes in the process of a worker. Throws if a node of a store sends this.
void Stores::take_process(Node node) {
  registry_->receive(node, Stay{});
  processes_.insert(node);
  send_(node, Staying{node});
}

void Stores::receive(Node node, const ToScheduler& message) {
  if (is_process(node)) {
    throw Error(ErrorCode::internal, "a message out of turn: a worker's process says nothing more");
  }
  const auto* const said = std::get_if<Register>(&message);
  const auto* const stopping = std::get_if<Stopping>(&message);
  if (said != nullptr) {
    take(node, *said);
  } else if (stopping != nullptr) {
    return lose(node, base::printable(stopping->reason, 1024));
  } else if (idle_.contains(node)) {
    return;  // the server has not heard yet that its store is over
  } else if (std::holds_alternative<Stay>(message)) {
    take_process(node);
  } else {
    registry_->receive(node, message);
  }
  advance();
}

/// The processes of the first store's workers make the stores that follow.
void Stores::take(Node node, const Register& said) {
  const bool is_stranger =
      said.role == Role::worker && !former_.empty() &&
      std::ranges::find(former_, said.membership, &Present::membership) == former_.end();
  if (is_stranger) {
    const std::string text = fmt::format(
        "the job has its workers already, {}: no other process can take part in a store of theirs",
        text_of(former_));
    return send_(node, Refused{{ErrorCode::invalid_argument, text, {}}});
  }
  idle_.erase(node);
  registry_->receive(node, said);
  if (registry_->is_complete() && workers_.empty()) workers_ = registry_->present(Role::worker);
}

void Stores::lose(Node node, const std::string& reason) {
  const auto server = server_between(node);
  processes_.erase(node);
  const bool was_idle = idle_.erase(node) > 0;
  registry_->lose(node, reason);
  if (was_idle && !over_)
    registry_->note_gone({Role::server, server->rank, reason + server->place});
  // A durable server is started again.
  if (server && !server->is_durable) {
    registry_->refuse_all(
        {ErrorCode::peer_lost,
         fmt::format("server {} is lost: {}{}", server->rank, reason, server->place),
         {}});
  }
  advance();
}

/// The node, if it is a server of the former store that does not belong to another store yet.
std::optional<Registry::Present> Stores::server_between(Node node) const {
  const auto idle = idle_.find(node);
  if (idle != idle_.end()) return idle->second;
  if (former_.empty() || registry_->is_complete()) return std::nullopt;
  for (const Present& server : registry_->present(Role::server)) {
    if (server.node == node) return server;
  }
  return std::nullopt;
}

std::vector<Registry::Present> Stores::ended() const {
  std::vector<Present> workers = former_;
  std::erase_if(workers, [&](const Present& one) { return is_process(one.membership); });
  return workers;
}

std::vector<Registry::Present> Stores::not_come() const {
  std::vector<Present> workers = former_;
  for (const Present& come : registry_->present(Role::worker)) {
    std::erase_if(workers, [&](const Present& one) { return one.membership == come.membership; });
  }
  return workers;
}

void Stores::advance() {
  if (over_) return;
  if (registry_->is_over()) {
    if (!registry_->trouble().empty()) return end();
    begin_next();
  }
  if (former_.empty() || registry_->is_complete()) return;
  const bool is_wanted = !registry_->present(Role::worker).empty();
  const std::vector<Present> gone = ended();
  if (is_wanted && !gone.empty()) {
    refuse_without(gone);
    return end();
  }
  if (is_wanted) return call_servers();
  if (gone.size() == former_.size()) end();
}

void Stores::begin_next() {
  for (const Present& server : registry_->present(Role::server)) idle_.emplace(server.node, server);
  former_ = std::exchange(workers_, {});
  has_called_ = false;
  registry_ = std::make_unique<Registry>(size_, big_count_, send_, new_id_());
}

void Stores::call_servers() {
  if (std::exchange(has_called_, true)) return;
  for (const auto& [node, server] : idle_) send_(node, Another{});
}

void Stores::refuse_without(const std::vector<Present>& gone) {
  registry_->refuse_all(
      {ErrorCode::peer_lost,
       fmt::format("{} {} ended since the job's last store was closed, and a store needs all {} "
                   "workers of the job: let every worker create the same number of stores",
                   text_of(gone), gone.size() == 1 ? "has" : "have", former_.size()),
       ranks_of(gone)});
}

void Stores::give_up_waiting(base::Clock::duration limit) {
  const std::vector<Present> missing = not_come();
  if (missing.empty()) {
    registry_->give_up_waiting();
    return advance();
  }
  registry_->refuse_all(
      {ErrorCode::timeout,
       fmt::format("{} {} not created another store within {}, but the other workers have: all "
                   "workers of a job must create each store",
                   text_of(missing), missing.size() == 1 ? "has" : "have",
                   base::create_limit(limit)),
       ranks_of(missing)});
  advance();
}

void Stores::stop(const std::string& reason) {
  if (over_) return;
  const Lost lost{Role::scheduler, 0, reason};
  for (const Node process : std::exchange(processes_, {})) send_(process, lost);
  for (const auto& [node, server] : std::exchange(idle_, {})) send_(node, lost);
  registry_->stop(reason);
  advance();
}

void Stores::end() {
  over_ = true;
  trouble_ = registry_->trouble();
  const Refused refused{{ErrorCode::peer_lost, trouble_, {}}};
  const FromScheduler last = trouble_.empty() ? FromScheduler(Over{}) : FromScheduler(refused);
  for (const auto& [node, server] : idle_) send_(node, last);
  // Servers that were told of trouble do not wait for this message.
  for (const Present& server : registry_->present(Role::server)) send_(server.node, Over{});
  if (trouble_.empty()) return;
  for (const Node process : processes_) send_(process, refused);
}

}  // namespace tutti::ps
