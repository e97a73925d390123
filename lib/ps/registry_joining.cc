// How nodes come to a job: who fits, who gets which rank, and how a durable server comes back.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/printable.h"
#include "ps/registry.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

std::string kind_of(const Register& said) {
  if (!said.asynchronous) return "a synchronous store (dist_sync, or TUTTI_STALENESS=0)";
  if (said.staleness == unbounded) return "an asynchronous store (dist_async)";
  return fmt::format("an asynchronous store with TUTTI_STALENESS={}", said.staleness);
}

bool is_same_kind(const Register& a, const Register& b) {
  return a.asynchronous == b.asynchronous && a.staleness == b.staleness;
}

std::string state_of(const Register& said) {
  return said.job == 0 ? "no state" : "the state of an earlier job";
}

int wanted_count(Role role, const Company& company) {
  return role == Role::worker ? company.workers : company.servers;
}

}  // namespace

/// What keeps the whole job from starting.
std::optional<Failure> Registry::disagreement(const Register& said) const {
  const std::string who = fmt::format("a {}", name(said.role));
  if (said.version != version()) {
    return Failure{
        ErrorCode::mismatch,
        fmt::format("{} is tutti {}, and the scheduler {}; install one version everywhere", who,
                    base::printable(said.version, 64), version()),
        {}};
  }
  if (said.workers != company_.workers || said.servers != company_.servers) {
    return Failure{ErrorCode::mismatch,
                   fmt::format("{} was started with DMLC_NUM_WORKER={} and DMLC_NUM_SERVER={}, and "
                               "the scheduler with {} and {}",
                               who, said.workers, said.servers, company_.workers, company_.servers),
                   {}};
  }
  for (const auto& [node, other] : members_) {
    if (other.said.role != said.role) continue;
    if (said.role == Role::worker && !is_same_kind(other.said, said)) {
      return Failure{ErrorCode::mismatch,
                     fmt::format("{} asks for {}, and worker {} for {}; all ask for the same", who,
                                 kind_of(said), other.rank, kind_of(other.said)),
                     {}};
    }
    if (said.role == Role::server && other.said.job != said.job) {
      return Failure{ErrorCode::mismatch,
                     fmt::format("server {} brings {}, and server {} {}: all servers start with "
                                 "what they kept of one job, or all with empty folders",
                                 said.rank, state_of(said), other.rank, state_of(other.said)),
                     {}};
    }
  }
  return std::nullopt;
}

/// What keeps this node alone out.
std::optional<Failure> Registry::objection(const Register& said) const {
  if (said.role == Role::scheduler) {
    return Failure{ErrorCode::invalid_argument, "a scheduler is running here already", {}};
  }
  if (is_awaited(said)) return objection_to_return(said);
  if (said.durable && find(said.role, said.rank) != nullptr) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("server {} is there already; give each server that has a state its "
                               "own DMLC_RANK",
                               said.rank),
                   {}};
  }
  const int wanted = wanted_count(said.role, company_);
  if (!complete_ && count(said.role) < wanted) return std::nullopt;
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("the job has its {} {}{} already; start no more, or raise {}", wanted,
                             name(said.role), wanted == 1 ? "" : "s",
                             said.role == Role::worker ? "DMLC_NUM_WORKER" : "DMLC_NUM_SERVER"),
                 {}};
}

/// Who brings the state of a server of this job takes its place: what is left of the former process
/// is a connection on which nobody answers.
void Registry::lose_former(const Register& said) {
  if (!complete_ || said.role != Role::server || !said.durable || said.job != id_) return;
  const auto it = std::ranges::find_if(members_, [&](const auto& one) {
    return one.second.said.role == Role::server && one.second.rank == said.rank;
  });
  if (it != members_.end()) lose(it->first, "another process goes on from its state");
}

bool Registry::is_awaited(const Register& said) const {
  return said.role == Role::server && away_.contains(said.rank);
}

std::optional<Failure> Registry::objection_to_return(const Register& said) const {
  if (said.durable && said.job == id_) return std::nullopt;
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("server {0} is waited for with the state that it kept of this job, "
                             "and this process brings {1}; start it with the --state that server "
                             "{0} had",
                             said.rank, state_of(said)),
                 {}};
}

int Registry::free_rank(const Register& said) const {
  const int wanted = wanted_count(said.role, company_);
  if (said.rank >= 0 && said.rank < wanted && find(said.role, said.rank) == nullptr) {
    return said.rank;
  }
  int rank = 0;
  while (find(said.role, rank) != nullptr) ++rank;
  return rank;
}

void Registry::on(Node node, const Register& said) {
  if (members_.contains(node)) {
    throw Error(ErrorCode::internal, "a message out of turn: the node has registered already");
  }
  lose_former(said);
  if (const auto failure = objection(said)) return send_(node, Refused{*failure});
  if (is_awaited(said)) return welcome_back(node, said);
  if (const auto failure = disagreement(said)) {
    send_(node, Refused{*failure});
    return refuse_all(*failure);
  }
  const int rank = free_rank(said);
  members_.emplace(node, Member{.said = said, .rank = rank});
  complete_ = count(Role::worker) == company_.workers && count(Role::server) == company_.servers;
  if (complete_) welcome_all();
}

Welcome Registry::welcome() const {
  Welcome welcome{.job = id_, .dropped = directory_.dropped()};
  for (int rank = 0; rank < company_.servers; ++rank) {
    // Who is away is not called before it has returned.
    const Member* const server = find(Role::server, rank);
    welcome.servers.push_back(server == nullptr
                                  ? Welcome::Server{}
                                  : Welcome::Server{server->said.address, server->said.port,
                                                    server->said.durable, server->said.keeps});
  }
  welcome.asynchronous = kind_.asynchronous;
  welcome.staleness = kind_.staleness;
  return welcome;
}

Welcome::Place Registry::place_among_workers(const Member& worker) const {
  Welcome::Place place{.local_rank = 0, .local_size = 0, .hosts = 0};
  std::set<std::string_view> hosts;
  for (const auto& [node, other] : members_) {
    if (other.said.role != Role::worker) continue;
    hosts.insert(other.said.host);
    if (other.said.host != worker.said.host) continue;
    ++place.local_size;
    if (other.rank < worker.rank) ++place.local_rank;
  }
  place.hosts = static_cast<int>(hosts.size());
  return place;
}

void Registry::welcome_all() {
  if (const auto failure = adopt_held()) return refuse_all(*failure);
  kind_ = find(Role::worker, 0)->said;
  Welcome each = welcome();
  for (const auto& [node, member] : members_) {
    each.rank = member.rank;
    each.place = member.said.role == Role::worker ? place_among_workers(member) : Welcome::Place{};
    send_(node, each);
  }
}

/// What servers bring from an earlier job stays where it is, but for keys of which some pieces
/// alone are there.
std::optional<Failure> Registry::adopt_held() {
  std::vector<Directory::HeldBy> held;
  for (const auto& [node, member] : members_) {
    for (const Held& one : member.said.held) held.push_back({one, member.rank});
  }
  return directory_.adopt(held);
}

void Registry::welcome_back(Node node, const Register& said) {
  away_.erase(said.rank);
  members_.emplace(node, Member{.said = said, .rank = said.rank});
  Welcome mine = welcome();
  mine.rank = said.rank;
  send_(node, mine);
  for (const Lost& lost : lost_workers_) send_(node, lost);
  for (const auto& [other, member] : members_) {
    if (other != node) send_(other, Returned{said.rank, said.address, said.port});
  }
}

}  // namespace tutti::ps
