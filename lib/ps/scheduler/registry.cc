#include "ps/scheduler/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "base/printable.h"
#include "base/wait_limits.h"
#include "ps/scheduler/moments.h"

namespace tutti::ps {
namespace {

/// The place of the node, in words that end a text about it.
std::string place_of(const Register& said) {
  if (said.host.empty()) return "";
  return fmt::format(" (process {} on {})", said.process, base::printable(said.host, 64));
}

[[noreturn]] void refuse_order(const char* what) {
  throw Error(ErrorCode::internal, fmt::format("a message out of turn: {}", what));
}

}  // namespace

Registry::Registry(JobSize size, std::uint64_t big_count, Send send, std::uint64_t id)
    : size_(size), send_(std::move(send)), id_(id), directory_(size.servers, big_count) {}

void Registry::receive(Node node, const ToScheduler& message) {
  std::visit([&](const auto& one) { on(node, one); }, message);
}

const Registry::Member& Registry::member(Node node) const {
  const auto it = members_.find(node);
  if (it == members_.end()) refuse_order("the node has not registered");
  if (!complete_) refuse_order("not all nodes are there");
  if (it->second.said.role != Role::worker) refuse_order("only workers say this");
  if (!begun_) refuse_order("not all servers are ready");
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

std::vector<Registry::Present> Registry::present(Role role) const {
  std::vector<Present> all;
  for (const auto& [node, member] : members_) {
    const Register& said = member.said;
    if (said.role != role) continue;
    all.push_back({node, role, member.rank, said.durable, said.membership, place_of(said)});
  }
  std::ranges::sort(all, {}, &Present::rank);
  return all;
}

void Registry::on(Node node, const BarrierArrival&) {
  static_cast<void>(member(node));
  const auto given_up = given_up_.find(members_.at(node).barriers++);
  if (given_up != given_up_.end()) return send_(node, given_up->second);
  in_barrier_.insert(node);
  end_barrier();
}

void Registry::end_barrier() {
  if (in_barrier_.empty()) return;
  BarrierRelease over;
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

std::vector<int> Registry::awaited_in_barrier() const {
  std::vector<int> awaited;
  if (in_barrier_.empty()) return awaited;
  for (const auto& [node, member] : members_) {
    if (member.said.role == Role::worker && !in_barrier_.contains(node)) {
      awaited.push_back(member.rank);
    }
  }
  std::ranges::sort(awaited);
  return awaited;
}

void Registry::give_up_barrier(base::Clock::duration limit) {
  const std::vector<int> awaited = awaited_in_barrier();
  const BarrierRelease over{Failure{
      ErrorCode::timeout,
      fmt::format("barrier: worker{} {} did not come within {}", awaited.size() == 1 ? "" : "s",
                  fmt::join(awaited, ", "), base::key_limit(limit)),
      awaited}};
  // A late worker gets this answer, too. Otherwise it would meet the others in their next barrier,
  // and be one barrier behind from then on.
  given_up_.emplace(members_.at(*in_barrier_.begin()).barriers - 1, over);
  for (const Node node : std::exchange(in_barrier_, {})) send_(node, over);
}

/// Servers ask, too, for the values that they bring from a job with another number of servers. If a
/// node asks for more than the job can have, it is told why the job ends.
void Registry::on(Node node, const Locate& asked) {
  const auto it = members_.find(node);
  const bool is_server = it != members_.end() && it->second.said.role == Role::server;
  if (!is_server || !complete_) static_cast<void>(member(node));
  try {
    send_(node, directory_.locate(asked));
  } catch (const Error& error) {
    send_(node, Refused{{error.code(), error.what(), {}}});
    lose(node, error.what());
  }
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

void Registry::on(Node node, const Finished&) {
  static_cast<void>(member(node));
  members_.at(node).left = members_.at(node).finished = true;
  in_barrier_.erase(node);
  end_barrier();
  end_if_finished();
}

void Registry::on(Node node, const Stopping& stopping) {
  lose(node, base::printable(stopping.reason, 1024));
}

void Registry::on(Node node, const Stay&) {
  if (members_.contains(node)) refuse_order("a process's own connection is another");
}

void Registry::on(Node node, const ReadOn& asked) {
  const int worker = member(node).rank;
  for (const auto& [other, server] : members_) {
    const bool is_asked = server.said.role == Role::server && server.rank == asked.rank;
    if (is_asked) send_(other, ReadOn{worker, asked.sequence});
  }
}

void Registry::lose(Node node, const std::string& reason) {
  const auto it = members_.find(node);
  if (it == members_.end()) return;
  const Register& said = it->second.said;
  const Lost lost{said.role, it->second.rank, reason + place_of(said)};
  const bool finished = it->second.finished;
  const bool is_waited_for = said.role == Role::server && said.durable;
  members_.erase(it);
  in_barrier_.erase(node);
  // Before all nodes are there, another process may take the place of this one. Afterwards a node
  // that needs nothing more may end.
  if (over_ || finished) return;
  if (!complete_) return note_gone(lost);
  if (!is_waited_for) return announce(lost);
  away_.emplace(lost.rank, lost);
  send_all(Away{lost.rank, lost.reason});
}

void Registry::note_gone(const Lost& lost) {
  constexpr std::size_t most_noted = 4;
  gone_.push_back(fmt::format("{} {} came and went: {}", name(lost.role), lost.rank, lost.reason));
  if (gone_.size() > most_noted) gone_.pop_front();
  base::log().warn("{}, before all were there", gone_.back());
}

std::vector<int> Registry::servers_away() const {
  std::vector<int> ranks;
  for (const auto& [rank, lost] : away_) ranks.push_back(rank);
  return ranks;
}

void Registry::give_up_on_server(int rank, base::Clock::duration limit) {
  const auto it = away_.find(rank);
  if (it == away_.end()) return;
  Lost lost = std::move(it->second);
  away_.erase(it);
  lost.reason += fmt::format(
      ", and did not come back in time: a server that is started again must read its state and "
      "come back within {}",
      base::create_limit(limit));
  announce(lost);
}

void Registry::announce(const Lost& lost) {
  if (lost.role == Role::worker) lost_workers_.push_back(lost);
  if (trouble_.empty()) {
    trouble_ = fmt::format("{} {} is lost: {}", name(lost.role), lost.rank, lost.reason);
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

std::vector<int> Registry::servers_not_ready() const {
  std::vector<int> ranks;
  for (int rank = 0; complete_ && rank < size_.servers; ++rank) {
    const Member* const server = find(Role::server, rank);
    if (server == nullptr || !server->ready) ranks.push_back(rank);
  }
  return ranks;
}

void Registry::give_up_beginning(base::Clock::duration limit) {
  const std::vector<int> awaited = servers_not_ready();
  refuse_all({ErrorCode::timeout,
              fmt::format("server{} {} did not write the state with which the job begins within {}",
                          awaited.size() == 1 ? "" : "s", fmt::join(awaited, ", "),
                          base::key_limit(limit)),
              {}});
}

/// All servers that restore a job have read the same states.
std::string Registry::doubt_about_state() const {
  std::vector<Moment> moments;
  for (int rank = 0; rank < size_.servers; ++rank) {
    for (const Brought& brought : find(Role::server, rank)->said.brings) {
      if (brought.job != begins_with_) continue;
      moments.insert(moments.end(), brought.moments.begin(), brought.moments.end());
    }
    if (begins_with_ == 0) break;
  }
  return difference_of(moments);
}

void Registry::note_end(const Failure& failure) {
  if (!end_) end_ = failure;
  refuse_after_end();
}

void Registry::refuse_after_end() {
  if (end_ && !complete_ && !over_ && count(Role::worker) > 0) refuse_all(*end_);
}

/// The ranks that no node has. Empty if nodes did not ask for their ranks, because then any rank
/// may be missing.
std::vector<int> Registry::missing(Role role) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < (role == Role::worker ? size_.workers : size_.servers); ++rank) {
    if (find(role, rank) == nullptr) ranks.push_back(rank);
  }
  const bool are_chosen = std::ranges::all_of(members_, [&](const auto& one) {
    return one.second.said.role != role || one.second.said.rank == one.second.rank;
  });
  if (!are_chosen) ranks.clear();
  return ranks;
}

std::string Registry::missing() const {
  std::vector<std::string> nodes;
  for (const Role role : {Role::worker, Role::server}) {
    for (const int rank : missing(role)) nodes.push_back(fmt::format("{} {}", name(role), rank));
  }
  return nodes.empty() ? "" : fmt::format(" for {}", fmt::join(nodes, ", "));
}

void Registry::give_up_waiting() {
  const std::string text = fmt::format(
      "the scheduler gave up waiting{}: {} of {} workers and {} of {} servers have come; are the "
      "others running, and not stopped or busy before their create? Do they reach this "
      "scheduler, and do they have the job's TUTTI_JOB_KEY? (The wait is create_timeout, "
      "TUTTI_CREATE_SECONDS.){}{}",
      missing(), count(Role::worker), size_.workers, count(Role::server), size_.servers,
      gone_.empty() ? "" : " ", fmt::join(gone_, "; "));
  refuse_all({ErrorCode::timeout, text, missing(Role::worker)});
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
