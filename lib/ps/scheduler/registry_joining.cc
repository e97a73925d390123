// In this file nodes join a job: it chooses the nodes that fit and their ranks, and lets a durable
// server come back.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/log.h"
#include "base/printable.h"
#include "ps/scheduler/registry.h"
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

bool brings(const Register& said, std::uint64_t job) {
  return std::ranges::find(said.brings, job, &Brought::job) != said.brings.end();
}

std::string state_of(const Register& said) {
  return said.brings.back().job == 0 ? "no state" : "the state of an earlier job";
}

int wanted_count(Role role, const JobSize& size) {
  return role == Role::worker ? size.workers : size.servers;
}

}  // namespace

/// The failure that keeps the whole job from starting; nothing if there is none.
std::optional<Failure> Registry::disagreement(const Register& said) const {
  const std::string who = fmt::format("a {}", name(said.role));
  if (said.version != version()) {
    return Failure{
        ErrorCode::mismatch,
        fmt::format("{} runs tutti {}, but the scheduler runs {}; install one version everywhere",
                    who, base::printable(said.version, 64), version()),
        {}};
  }
  if (said.workers != size_.workers || said.servers != size_.servers) {
    return Failure{ErrorCode::mismatch,
                   fmt::format("{} was started with DMLC_NUM_WORKER={} and DMLC_NUM_SERVER={}, "
                               "but the scheduler with {} and {}; start all processes with the "
                               "same numbers",
                               who, said.workers, said.servers, size_.workers, size_.servers),
                   {}};
  }
  for (const auto& [node, other] : members_) {
    if (other.said.role != said.role) continue;
    if (said.role == Role::worker && !is_same_kind(other.said, said)) {
      return Failure{ErrorCode::mismatch,
                     fmt::format("{} asks for {}, but worker {} asks for {}; all workers must "
                                 "ask for the same",
                                 who, kind_of(said), other.rank, kind_of(other.said)),
                     {}};
    }
  }
  return said.role == Role::server ? disagreement_of_states(said) : std::nullopt;
}

std::optional<Failure> Registry::disagreement_of_states(const Register& said) const {
  const Member* other = nullptr;
  bool agree = false;
  for (const Brought& brought : said.brings) {
    const auto lacks = std::ranges::find_if(members_, [&](const auto& one) {
      return one.second.said.role == Role::server && !brings(one.second.said, brought.job);
    });
    agree = agree || lacks == members_.end();
    if (lacks != members_.end()) other = &lacks->second;
  }
  if (agree || other == nullptr) return std::nullopt;
  return Failure{
      ErrorCode::mismatch,
      fmt::format("server {} brings {}, and server {} brings {}{}: all servers must begin with "
                  "the states of one job, or all with empty folders",
                  said.rank, state_of(said), other->rank, state_of(other->said),
                  state_of(said) == state_of(other->said) ? ", but of another" : ""),
      {}};
}

/// The failure that keeps only this node out; nothing if there is none.
std::optional<Failure> Registry::objection(const Register& said) const {
  if (said.role == Role::scheduler) {
    return Failure{ErrorCode::invalid_argument,
                   "another scheduler is already running here; stop "
                   "it, or choose another DMLC_PS_ROOT_PORT",
                   {}};
  }
  if (is_awaited(said)) return objection_to_return(said);
  if (said.durable && find(said.role, said.rank) != nullptr) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("the job already has a server {}; give each server that keeps a "
                               "state its own DMLC_RANK",
                               said.rank),
                   {}};
  }
  return objection_to_more(said);
}

/// Servers know the last message of a lost worker, and the other workers know what they had
/// received from it. So a new worker cannot take its place.
std::optional<Failure> Registry::objection_to_more(const Register& said) const {
  const int wanted = wanted_count(said.role, size_);
  if (!complete_ && count(said.role) < wanted) return std::nullopt;
  const auto lost = std::ranges::find_if(
      lost_workers_, [&](const Lost& one) { return one.rank == said.rank || said.rank < 0; });
  if (said.role == Role::worker && lost != lost_workers_.end()) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("worker {} of this job is lost, and a running job takes no worker back: "
                    "start the whole job again",
                    lost->rank),
        {}};
  }
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("the job already has its {} {}{}; start no more, or raise {}", wanted,
                             name(said.role), wanted == 1 ? "" : "s",
                             said.role == Role::worker ? "DMLC_NUM_WORKER" : "DMLC_NUM_SERVER"),
                 {}};
}

/// A process that brings the state of a server of this job takes that server's place. The former
/// process has ended: on its connection nobody answers.
void Registry::lose_former(const Register& said) {
  if (!begun_ || said.role != Role::server || !said.durable || !brings(said, id_)) return;
  const auto it = std::ranges::find_if(members_, [&](const auto& one) {
    return one.second.said.role == Role::server && one.second.rank == said.rank;
  });
  if (it != members_.end()) lose(it->first, "another process goes on from its state");
}

bool Registry::is_awaited(const Register& said) const {
  return said.role == Role::server && away_.contains(said.rank);
}

/// Until all servers are ready, each server begins anew with its old state.
std::optional<Failure> Registry::objection_to_return(const Register& said) const {
  if (said.durable && brings(said, job_to_come_back_with())) return std::nullopt;
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("the job waits for server {0} with {1}, but this process brings "
                             "{2}; start it with the --state that server {0} had",
                             said.rank,
                             begun_              ? "the state that it kept of this job"
                             : begins_with_ == 0 ? "an empty folder, as it began"
                                                 : "the state that it began with",
                             state_of(said)),
                 {}};
}

int Registry::free_rank(const Register& said) const {
  const int wanted = wanted_count(said.role, size_);
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
  if (said.role == Role::server && said.brings.empty()) {
    throw Error(ErrorCode::internal, "a server does not say what it may begin with");
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
  complete_ = count(Role::worker) == size_.workers && count(Role::server) == size_.servers;
  if (complete_) {
    gather();
  } else {
    refuse_after_end();
  }
}

Welcome Registry::welcome() const {
  Welcome welcome{.job = id_, .dropped = directory_.dropped()};
  for (int rank = 0; rank < size_.servers; ++rank) {
    // Workers do not connect to a server that is away until it has returned.
    const Member* const server = find(Role::server, rank);
    welcome.servers.push_back(
        server == nullptr ? Welcome::ServerAddress{}
                          : Welcome::ServerAddress{server->said.address, server->said.port,
                                                   server->said.durable, server->said.keeps});
  }
  welcome.asynchronous = kind_.asynchronous;
  welcome.staleness = kind_.staleness;
  return welcome;
}

Welcome::Locality Registry::place_among_workers(const Member& worker) const {
  Welcome::Locality place{.local_rank = 0, .local_size = 0, .hosts = 0};
  std::set<std::string_view> hosts;
  for (const auto& [node, other] : members_) {
    if (other.said.role != Role::worker) continue;
    hosts.insert(other.said.host_identity);
    if (other.said.host_identity != worker.said.host_identity) continue;
    ++place.local_size;
    if (other.rank < worker.rank) ++place.local_rank;
  }
  place.hosts = static_cast<int>(hosts.size());
  return place;
}

/// All nodes are there. If an interrupted start has left prepared states, and all servers have
/// theirs, those states count. One of these servers may have nothing else any more.
void Registry::gather() {
  for (const Brought& brought : find(Role::server, 0)->said.brings) {
    const bool all_have_it = std::ranges::all_of(members_, [&](const auto& one) {
      return one.second.said.role != Role::server || brings(one.second.said, brought.job);
    });
    if (all_have_it) begins_with_ = brought.job;
  }
  if (const auto failure = adopt_held()) return refuse_all(*failure);
  doubt_ = doubt_about_state();
  if (!doubt_.empty()) base::log().warn("{}", doubt_);
  kind_ = find(Role::worker, 0)->said;
  Welcome each = welcome();
  each.begins_with = begins_with_;
  for (const auto& [node, member] : members_) {
    each.rank = member.rank;
    if (member.said.role == Role::worker) {
      send_(node, Gathered{});
    } else {
      send_(node, each);
    }
  }
}

void Registry::on(Node node, const Ready&) {
  const auto it = members_.find(node);
  const bool is_server = it != members_.end() && it->second.said.role == Role::server;
  if (!is_server || !complete_) {
    throw Error(ErrorCode::internal, "a message out of turn: only a server that begins is ready");
  }
  it->second.ready = true;
  if (begun_) return send_(node, Begin{});
  const auto ready =
      std::ranges::count_if(members_, [](const auto& one) { return one.second.ready; });
  if (ready < size_.servers) return;
  begun_ = true;
  for (const auto& [other, member] : members_) {
    if (member.said.role == Role::server) send_(other, Begin{});
  }
  welcome_workers();
}

void Registry::welcome_workers() {
  Welcome each = welcome();
  each.doubt = doubt_;
  for (const auto& [node, member] : members_) {
    if (member.said.role != Role::worker) continue;
    each.rank = member.rank;
    each.place = place_among_workers(member);
    send_(node, each);
    for (const Lost& lost : lost_workers_) send_(node, lost);
  }
}

/// The values that servers bring from an earlier job stay on these servers, except for keys of
/// which only some pieces are there.
std::optional<Failure> Registry::adopt_held() {
  std::vector<Directory::HeldBy> held;
  for (const auto& [node, member] : members_) {
    for (const Brought& brought : member.said.brings) {
      if (brought.job != begins_with_) continue;
      for (const Held& one : brought.held) held.push_back({one, member.rank});
    }
  }
  return directory_.adopt(held);
}

void Registry::welcome_back(Node node, const Register& said) {
  away_.erase(said.rank);
  members_.emplace(node, Member{.said = said, .rank = said.rank});
  Welcome mine = welcome();
  mine.rank = said.rank;
  mine.begins_with = job_to_come_back_with();
  send_(node, mine);
  for (const Lost& lost : lost_workers_) send_(node, lost);
  for (const auto& [other, member] : members_) {
    if (other != node) send_(other, Returned{said.rank, said.address, said.port});
  }
}

}  // namespace tutti::ps
