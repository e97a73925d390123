// The process that keeps values.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/log.h"
#include "net/reception.h"
#include "net/sockets.h"
#include "ps/roles.h"
#include "ps/scheduler_link.h"
#include "ps/table.h"
#include "ps/worker_link.h"
#include "tutti/version.h"

namespace tutti::ps {
namespace {

// Tokens of epoll events. A worker's rank is the token of its connection; these two are larger.
constexpr std::uint64_t scheduler_token = std::uint64_t{1} << 32;
constexpr std::uint64_t reception_token = scheduler_token + 1;
constexpr std::uint64_t near_reception_token = scheduler_token + 2;

class Server {
 public:
  Server(const Job& job, const Options& options)
      : job_(job),
        scheduler_(job, options, poller_, scheduler_token),
        listener_(listen()),
        near_listener_(listen_nearby()),
        welcome_(scheduler_.join(registration())),
        reception_(listener_, identity(options), audience()),
        near_reception_(near_listener_, identity(options), audience()),
        links_(static_cast<std::size_t>(job.company.workers)),
        table_({.workers = job.company.workers,
                .asynchronous = welcome_.asynchronous,
                .staleness = welcome_.staleness,
                .send = [this](int worker, const Answer& answer) {
                  if (auto& link = links_[static_cast<std::size_t>(worker)]) link->send(answer);
                }}) {
    base::set_log_rank(welcome_.rank);
    poller_.add(reception_.descriptor(), reception_token);
    poller_.add(near_reception_.descriptor(), near_reception_token);
  }

  void run();

 private:
  std::string address() const;
  base::Fd listen() const;
  base::Fd listen_nearby() const;
  Register registration() const;
  net::Identity identity(const Options& options) const;
  std::string describe() const { return fmt::format("server {}", welcome_.rank); }
  net::Reception::Audience audience();
  base::Clock::time_point wake_up_by() const;
  void hear_others();
  void hear_scheduler(const FromScheduler& message);
  void welcome(net::Reception& reception);
  void hear(std::size_t worker);

  const Job& job_;
  net::Poller poller_;
  SchedulerLink scheduler_;
  // Both listen before this server is known to any worker.
  base::Fd listener_;
  base::Fd near_listener_;
  const Welcome welcome_;
  net::Reception reception_;
  net::Reception near_reception_;                   ///< of the workers of this machine
  std::vector<std::unique_ptr<WorkerLink>> links_;  ///< by worker; null while it has none
  Table table_;
  bool over_ = false;
};

std::string Server::address() const {
  return job_.node_host.empty() ? scheduler_.local_address() : job_.node_host;
}

base::Fd Server::listen() const {
  check_may_use(job_, address());
  return net::listen_tcp(address());
}

base::Fd Server::listen_nearby() const {
  return net::listen_nearby(job_.nearby_name(address(), net::port_of(listener_)));
}

net::Identity Server::identity(const Options& options) const {
  return {.rank = welcome_.rank,
          .secret = job_.secret,
          .purpose = server_purpose,
          .name = describe(),
          .encrypts = options.encrypt};
}

Register Server::registration() const {
  return {.role = Role::server,
          .rank = job_.wanted_rank,
          .workers = job_.company.workers,
          .servers = job_.company.servers,
          .version = version(),
          .address = address(),
          .port = net::port_of(listener_)};
}

net::Reception::Audience Server::audience() {
  const auto expects = [this](int rank) {
    return rank >= 0 && rank < job_.company.workers && !links_[static_cast<std::size_t>(rank)];
  };
  return {expects, static_cast<std::size_t>(job_.company.workers)};
}

base::Clock::time_point Server::wake_up_by() const {
  const auto beat = scheduler_.next_beat();
  return std::min(
      {beat, reception_.deadline().value_or(beat), near_reception_.deadline().value_or(beat)});
}

void Server::run() {
  hear_others();
  while (!over_) {
    scheduler_.flush();
    for (const auto& link : links_) {
      if (link) link->flush();
    }
    const auto events = poller_.wait(wake_up_by());
    bool others_spoke = events.empty();
    for (const epoll_event& event : events) {
      if (event.data.u64 < links_.size()) {
        hear(event.data.u64);
      } else {
        others_spoke = true;
      }
    }
    if (others_spoke) hear_others();
    scheduler_.beat();
  }
  scheduler_.close();
}

/// All but the workers' requests.
void Server::hear_others() {
  welcome(reception_);
  welcome(near_reception_);
  scheduler_.receive([this](const FromScheduler& message) { hear_scheduler(message); });
}

void Server::hear_scheduler(const FromScheduler& message) {
  over_ = over_ || std::holds_alternative<End>(message);
  const auto* const lost = std::get_if<Lost>(&message);
  if (lost == nullptr) return;
  if (lost->role == Role::scheduler) throw_failure(failure_of(*lost));
  if (lost->role == Role::worker) table_.lose(lost->rank, failure_of(*lost));
}

void Server::welcome(net::Reception& reception) {
  for (net::ProvenPeer& peer : reception.advance()) {
    const int worker = peer.rank;
    auto& link = links_[static_cast<std::size_t>(worker)];
    if (link) continue;
    try {
      link = std::make_unique<WorkerLink>(std::move(peer), poller_,
                                          static_cast<std::uint64_t>(worker));
    } catch (const Error& error) {
      base::log().warn("{} closes the connection of worker {}: {}", describe(), worker,
                       error.what());
    }
  }
}

/// Whether a worker whose connection ends is lost is for the scheduler to say.
void Server::hear(std::size_t worker) {
  auto& link = links_[worker];
  if (!link) return;
  std::optional<std::string> ended;
  try {
    ended = link->receive(
        [&](const ToServer& request) { table_.receive(static_cast<int>(worker), request); });
  } catch (const Error& error) {
    ended = error.what();
    base::log().error("{} closes the connection of worker {}: {}", describe(), worker, *ended);
  }
  if (ended) link.reset();
}

}  // namespace

void run_server(const Job& job, const Options& options) {
  Server(job, options).run();
}

}  // namespace tutti::ps
