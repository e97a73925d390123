// The worker's thread: how it reaches servers, and waits for those that are to come back.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "net/interfaces.h"
#include "net/sockets.h"
#include "ps/courier.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// Between two calls of a server that does not answer, and how long it has to.
constexpr Clock::duration between_calls = std::chrono::milliseconds(500);
constexpr Clock::duration answers_within = std::chrono::seconds(5);
/// The scheduler decides that it does not come back; but it may not know that it is away.
constexpr Clock::duration scheduler_decides = std::chrono::seconds(5);

}  // namespace

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

/// For as long as for who has not come to the job.
void Courier::wait_for(std::size_t server, const std::string& why) {
  if (server >= servers_.size() || finished_) return;
  servers_[server]->disconnect();
  const auto now = Clock::now();
  const auto [it, is_new] = absent_.try_emplace(
      server, Absent{why, now + patience_ + scheduler_decides, now + between_calls});
  if (!is_new) return;
  base::log().warn("worker {} waits for server {}, which may come back within {:g} s: {}", rank_,
                   server, std::chrono::duration<double>(patience_).count(), why);
}

void Courier::on_returned(const Returned& returned) {
  const auto server = static_cast<std::size_t>(returned.rank);
  if (server >= places_.size()) return;
  places_[server].address = returned.address;
  places_[server].port = returned.port;
  wait_for(server, "it was started again");
  if (const auto it = absent_.find(server); it != absent_.end())
    it->second.next_call = Clock::now();
}

void Courier::call_absent(Clock::time_point now) {
  std::vector<std::size_t> due;
  for (const auto& [server, absent] : absent_) {
    if (now >= absent.until) {
      throw_failure(
          {ErrorCode::peer_lost,
           fmt::format("server {} is lost, and has not come back within {:g} s: {}", server,
                       std::chrono::duration<double>(patience_).count(), absent.why),
           {}});
    }
    if (now >= absent.next_call) due.push_back(server);
  }
  for (const std::size_t server : due) call(server, now);
}

/// A server that is started again may have another address, of which the scheduler tells.
void Courier::call(std::size_t server, Clock::time_point now) {
  try {
    reach(server, now + answers_within);
  } catch (const Error& error) {
    const bool may_come =
        error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::timeout;
    if (bad_news_ || !may_come) throw;
    if (const auto it = absent_.find(server); it != absent_.end()) {
      it->second.next_call = Clock::now() + between_calls;
    }
    return;
  }
  absent_.erase(server);
  requests_->begin_anew(Clock::now());
  base::log().warn("worker {} goes on: server {} is back", rank_, server);
}

}  // namespace tutti::ps
