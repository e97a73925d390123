#include "ps/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/printable.h"
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

int wanted_count(Role role, const Company& company) {
  return role == Role::worker ? company.workers : company.servers;
}

[[noreturn]] void refuse_order(const char* what) {
  throw Error(ErrorCode::internal, fmt::format("a message out of turn: {}", what));
}

}  // namespace

Registry::Registry(Company company, std::uint64_t big_count, Send send)
    : company_(company), send_(std::move(send)), directory_(company.servers, big_count) {}

void Registry::receive(Node node, const ToScheduler& message) {
  std::visit([&](const auto& one) { on(node, one); }, message);
}

const Registry::Member& Registry::member(Node node) const {
  const auto it = members_.find(node);
  if (it == members_.end()) refuse_order("the node has not registered");
  if (!complete_) refuse_order("not all nodes are there");
  if (it->second.said.role != Role::worker) refuse_order("only workers say this");
  return it->second;
}

const Registry::Member* Registry::find(Role role, int rank) const {
  const auto it = std::ranges::find_if(members_, [&](const auto& one) {
    return one.second.said.role == role && one.second.rank == rank;
  });
  return it == members_.end() ? nullptr : &it->second;
}

int Registry::count(Role role) const {
  return static_cast<int>(std::ranges::count_if(
      members_, [&](const auto& one) { return one.second.said.role == role; }));
}

std::string Registry::describe(Node node) const {
  const auto it = members_.find(node);
  if (it == members_.end()) return "a node";
  return fmt::format("{} {}", name(it->second.said.role), it->second.rank);
}

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
  if (said.role != Role::worker) return std::nullopt;
  for (const auto& [node, other] : members_) {
    if (other.said.role != Role::worker || is_same_kind(other.said, said)) continue;
    return Failure{ErrorCode::mismatch,
                   fmt::format("{} asks for {}, and worker {} for {}; all ask for the same", who,
                               kind_of(said), other.rank, kind_of(other.said)),
                   {}};
  }
  return std::nullopt;
}

/// What keeps this node alone out.
std::optional<Failure> Registry::objection(const Register& said) const {
  if (said.role == Role::scheduler) {
    return Failure{ErrorCode::invalid_argument, "a scheduler is running here already", {}};
  }
  const int wanted = wanted_count(said.role, company_);
  if (!complete_ && count(said.role) < wanted) return std::nullopt;
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("the job has its {} {}{} already; start no more, or raise {}", wanted,
                             name(said.role), wanted == 1 ? "" : "s",
                             said.role == Role::worker ? "DMLC_NUM_WORKER" : "DMLC_NUM_SERVER"),
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
  if (members_.contains(node)) refuse_order("the node has registered already");
  if (const auto failure = objection(said)) return send_(node, Refused{*failure});
  if (const auto failure = disagreement(said)) {
    send_(node, Refused{*failure});
    return refuse_all(*failure);
  }
  const int rank = free_rank(said);
  members_.emplace(node, Member{.said = said, .rank = rank});
  complete_ = count(Role::worker) == company_.workers && count(Role::server) == company_.servers;
  if (complete_) welcome_all();
}

void Registry::welcome_all() {
  Welcome welcome;
  for (int rank = 0; rank < company_.servers; ++rank) {
    const Member& server = *find(Role::server, rank);
    welcome.servers.push_back({server.said.address, server.said.port});
  }
  welcome.asynchronous = find(Role::worker, 0)->said.asynchronous;
  welcome.staleness = find(Role::worker, 0)->said.staleness;
  for (const auto& [node, member] : members_) {
    welcome.rank = member.rank;
    send_(node, welcome);
  }
}

void Registry::on(Node node, const BarrierAsked&) {
  static_cast<void>(member(node));
  in_barrier_.insert(node);
  end_barrier();
}

void Registry::end_barrier() {
  if (in_barrier_.empty()) return;
  BarrierOver over;
  std::size_t awaited = 0;
  for (const auto& [node, member] : members_) {
    if (member.said.role != Role::worker) continue;
    ++awaited;
    if (!member.left) continue;
    const std::string text = fmt::format("barrier: worker {} has left the store", member.rank);
    over.failure = Failure{ErrorCode::aborted, text, {member.rank}};
  }
  if (!over.failure && in_barrier_.size() < awaited) return;
  for (const Node node : std::exchange(in_barrier_, {})) send_(node, over);
}

void Registry::on(Node node, const Locate& asked) {
  static_cast<void>(member(node));
  send_(node, directory_.locate(asked));
}

void Registry::on(Node node, const LocateAll&) {
  static_cast<void>(member(node));
  send_(node, directory_.all());
}

void Registry::on(Node node, const Goodbye&) {
  static_cast<void>(member(node));
  members_.at(node).left = true;
  in_barrier_.erase(node);
  end_barrier();
}

void Registry::on(Node node, const Finished& said) {
  static_cast<void>(member(node));
  if (!said.reason.empty()) {
    return lose(node, fmt::format("it gave up: {}", base::printable(said.reason, 1024)));
  }
  members_.at(node).left = members_.at(node).finished = true;
  in_barrier_.erase(node);
  end_barrier();
  end_if_finished();
}

void Registry::lose(Node node, const std::string& reason) {
  const auto it = members_.find(node);
  if (it == members_.end()) return;
  const Lost lost{it->second.said.role, it->second.rank, reason};
  const bool finished = it->second.finished;
  members_.erase(it);
  in_barrier_.erase(node);
  // Before all are there another process may take the place. Afterwards who needs nothing more may
  // go.
  if (over_ || finished || !complete_) return;
  if (trouble_.empty()) {
    trouble_ = fmt::format("{} {} is lost: {}", name(lost.role), lost.rank, reason);
  }
  send_all(lost);
  end_barrier();
  end_if_finished();
}

void Registry::end_if_finished() {
  const bool finished = std::ranges::all_of(members_, [](const auto& one) {
    return one.second.said.role != Role::worker || one.second.finished;
  });
  if (over_ || !finished) return;
  over_ = true;
  send_all(End{});
}

void Registry::give_up_waiting() {
  const std::string text = fmt::format(
      "the scheduler gave up waiting: {} of {} workers and {} of {} servers have come; "
      "are the others running, do they reach this scheduler, and do they have the "
      "job's TUTTI_JOB_KEY?",
      count(Role::worker), company_.workers, count(Role::server), company_.servers);
  refuse_all({ErrorCode::timeout, text, {}});
}

void Registry::stop(const std::string& reason) {
  if (over_) return;
  trouble_ = trouble_.empty() ? reason : trouble_;
  send_all(Lost{Role::scheduler, 0, reason});
  over_ = true;
}

void Registry::refuse_all(const Failure& failure) {
  trouble_ = failure.text;
  send_all(Refused{failure});
  over_ = true;
}

void Registry::send_all(const FromScheduler& message) {
  for (const auto& [node, member] : members_) send_(node, message);
}

}  // namespace tutti::ps
