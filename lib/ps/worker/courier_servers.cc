// The worker's thread: how it reaches servers, and waits for those that are to come back.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/wait_limits.h"
#include "net/interfaces.h"
#include "net/sockets.h"
#include "ps/worker/courier.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// The time between two calls of a server that is away, and the time that it has to answer.
constexpr Clock::duration between_calls = std::chrono::milliseconds(500);
constexpr Clock::duration answers_within = std::chrono::seconds(5);
/// The scheduler decides that a server does not come back. It may not know that the server is away,
/// so the worker gives up by itself after this additional time.
constexpr Clock::duration scheduler_decides = std::chrono::seconds(5);

}  // namespace

void Courier::connect(const Welcome& welcome) {
  job_number_ = welcome.job;
  places_ = welcome.servers;
  // The servers are ready, and soon answer.
  const auto deadline = Clock::now() + patience_;
  for (std::size_t server = 0; server < places_.size(); ++server) {
    servers_.push_back(std::make_unique<ConnectionToServer>(
        poller_, std::uint64_t{server},
        Channel::Ends{fmt::format("worker {}", rank_), fmt::format("server {}", server)},
        terms_for(places_[server])));
    try {
      reach(server, deadline);
    } catch (const Error& error) {
      const bool may_come = error.code() == ErrorCode::peer_lost;
      if (bad_news_ || !may_come || !places_[server].durable) throw;
      wait_for(server, error.what());
    }
  }
}

Channel::Terms Courier::terms_for(const Welcome::ServerAddress& server) const {
  Channel::Terms terms = terms_;
  terms.delivery.keeps = server.keeps;
  return terms;
}

/// Connects within this machine if the server is here, so that memory can be shared. If messages
/// are kept for another connection, elements travel in the messages.
net::Candidate Courier::candidate_for(std::size_t server) const {
  const Welcome::ServerAddress& place = places_[server];
  if (!place.keeps) {
    if (auto near = net::connect_nearby(job_.nearby_name(place.address, place.port))) {
      return {std::move(near), "this machine"};
    }
  }
  check_may_use(job_, place.address);
  net::Candidate candidate = start_candidate_for(place);
  candidate.address = fmt::format("{}:{}", place.address, place.port);
  return candidate;
}

/// While the interface is down, it has no address.
net::Candidate Courier::start_candidate_for(const Welcome::ServerAddress& place) const {
  std::string source;
  try {
    if (!interface_.empty()) source = net::reachable_addresses(interface_).front();
  } catch (const Error& failure) {
    return {.socket = {}, .address = {}, .failure = failure.what()};
  }
  return net::start_candidate(place.address, place.port, source);
}

net::Identity Courier::identity(std::size_t server) const {
  return {.rank = rank_,
          .secret = job_.secret,
          .purpose = server_purpose(job_number_),
          .name = fmt::format("worker {}", rank_),
          .name_of_listener = fmt::format("server {}", server),
          .encrypts = encrypts_};
}

void Courier::reach(std::size_t server, Clock::time_point deadline) {
  std::vector<net::Candidate> candidates;
  candidates.push_back(candidate_for(server));
  // While this waits, the scheduler may say which process is lost.
  const auto look = [this] {
    try {
      scheduler_.receive([this](const FromScheduler& message) { hear_scheduler(message); });
      scheduler_.beat();
    } catch (const Error&) {
      bad_news_ = std::current_exception();
      throw;
    }
  };
  const base::Patience patience(deadline, look,
                                {.advice = "the wait is create_timeout, TUTTI_CREATE_SECONDS"});
  servers_[server]->connect(
      net::prove_to(std::move(candidates), identity(server), static_cast<int>(server), patience),
      patience);
}

/// Waits for the server as long as for a process that has not come to the job.
void Courier::wait_for(std::size_t server, const std::string& why) {
  if (server >= servers_.size() || finished_) return;
  servers_[server]->disconnect();
  const auto now = Clock::now();
  if (absent_.empty()) absent_since_ = now;
  const auto [it, is_new] =
      absent_.try_emplace(server, Absent{.why = why, .since = now, .due = now + between_calls});
  it->second.until = now + patience_ + scheduler_decides;
  it->second.limit = base::create_limit(patience_);
  if (!is_new) return;
  base::log().warn("worker {} waits for server {}, which may come back within {}: {}", rank_,
                   server, base::create_limit(patience_), why);
}

/// The worker may have seen the end of the server's connection before, without its reason.
void Courier::on_away(const Away& away) {
  const auto server = static_cast<std::size_t>(away.rank);
  wait_for(server, away.reason);
  const auto it = absent_.find(server);
  if (it == absent_.end() || it->second.why == away.reason) return;
  it->second.why = away.reason;
  if (away.reason.starts_with("its connection")) return;  // the worker has logged that before
  base::log().warn("worker {} hears why server {} went: {}", rank_, server, away.reason);
}

/// The server has read its state. It may have much to write before it answers. If it fails at that,
/// the scheduler says so.
void Courier::on_returned(const Returned& returned) {
  const auto server = static_cast<std::size_t>(returned.rank);
  if (server >= places_.size()) return;
  places_[server].address = returned.address;
  places_[server].port = returned.port;
  wait_for(server, "it was started again");
  const auto it = absent_.find(server);
  if (it == absent_.end()) return;
  it->second.call.reset();
  it->second.due = Clock::now();
  it->second.until = Clock::now() + limits_.timeout;
  it->second.limit = base::key_limit(limits_.timeout);
}

void Courier::call_absent(Clock::time_point now) {
  if (absent_.empty()) return;
  for (auto it = absent_.begin(); it != absent_.end();) {
    auto& [server, absent] = *it;
    if (now >= absent.until) {
      throw_failure({ErrorCode::peer_lost,
                     fmt::format("server {} is lost, and has not come back within {}: {}{}", server,
                                 absent.limit, absent.why, absent.last_call),
                     {}});
    }
    it = meet(server, absent, now) ? absent_.erase(it) : std::next(it);
  }
  // The time of a call that the server takes counts. Otherwise the worker would wait for ever for a
  // server that answers and ends again.
  if (!absent_.empty()) return;
  postpone(std::max(now - absent_since_ - between_calls, Clock::duration::zero()));
}

net::Approach Courier::approach(std::size_t server) const {
  std::vector<net::Candidate> candidates;
  candidates.push_back(candidate_for(server));
  return {std::move(candidates), identity(server), static_cast<int>(server)};
}

/// Tries to connect to the server. Returns whether it is there again. Any process may answer at its
/// old address. A server that is started again may have another address, which the scheduler tells.
bool Courier::meet(std::size_t server, Absent& absent, Clock::time_point now) {
  if (!absent.call && now < absent.due) return false;
  try {
    if (!absent.call) {
      absent.call = approach(server);
      absent.due = now + answers_within;
    }
    if (auto peer = absent.call->advance()) {
      servers_[server]->connect(*std::move(peer), base::Patience(now + answers_within));
      base::log().warn("worker {} goes on: server {} is back", rank_, server);
      // The server may have ended before it received this.
      recalled_[server].said = 0;
      return true;
    }
    if (now < absent.due) return false;
    absent.last_call = "; it did not answer";
  } catch (const Error& error) {
    constexpr std::array may_come{ErrorCode::peer_lost, ErrorCode::mismatch, ErrorCode::timeout};
    if (std::ranges::find(may_come, error.code()) == may_come.end()) throw;
    absent.last_call = fmt::format("; {}", error.what());
  }
  absent.call.reset();
  absent.due = now + between_calls;
  return false;
}

}  // namespace tutti::ps
