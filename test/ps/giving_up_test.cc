// Workers that fail by themselves, while their connection to the scheduler is well.
#include <catch2/catch.hpp>
#include <thread>

#include "net/handshake.h"
#include "net/sockets.h"
#include "ps/link/scheduler_link.h"
#include "ps/local_job.h"
#include "ps/protocol/wire.h"
#include "tutti/version.h"
#include "unit/base/logged.h"

using namespace tutti;
using Catch::Contains;
using Floats = std::vector<float>;

namespace {

/// Plays the only server of a job of two workers. It sends this message to worker 0, and nothing to
/// worker 1. It answers nobody.
void play_server(const ps::Job& job, const net::Bytes& said) {
  net::Poller poller;
  ps::SchedulerLink scheduler(job, LocalJob::options(), poller, 0);
  const base::Fd listener = net::listen_tcp("127.0.0.1");
  const ps::Welcome welcome = scheduler.join({.role = ps::Role::server,
                                              .workers = 2,
                                              .servers = 1,
                                              .version = version(),
                                              .asynchronous = false,
                                              .address = "127.0.0.1",
                                              .port = net::port_of(listener),
                                              .brings = {{}}});
  scheduler.send(ps::Ready{});
  scheduler.flush();
  const net::Identity me{
      .rank = 0, .secret = job.secret, .purpose = ps::server_purpose(welcome.job)};
  std::vector<net::Connection> workers;
  for (net::ProvenPeer& peer :
       net::accept_peers(listener, me, {0, 1}, base::Clock::now() + std::chrono::seconds(10))) {
    workers.emplace_back(std::move(peer));
  }
  for (net::Connection& worker : workers) {
    if (worker.peer() == 0) worker.queue(said);
    worker.flush();
  }
  for (bool over = false; !over;) {
    scheduler.flush();
    poller.wait(scheduler.next_beat());
    scheduler.beat();
    scheduler.receive([&](const ps::FromScheduler& message) {
      over = over || std::holds_alternative<ps::End>(message);
    });
  }
}

/// The errors that both workers get in their first call.
std::vector<std::string> heard_with(const net::Bytes& said,
                                    const Options& options = LocalJob::options()) {
  LocalJob job({.workers = 2, .servers = 1, .played = 1});
  std::thread server([&] { play_server(job.job(), said); });
  auto heard = job.run(
      [](KVStore& kv) {
        Floats value{1};
        kv.pushpull("w", tensor(value), tensor(value)).wait();
        return std::string("no error");
      },
      "dist_sync", options);
  server.join();
  return heard;
}

}  // namespace

TEST_CASE("a worker that cannot go on is lost to the others, and they are told why") {
  const net::ConstBytes nonsense = net::as_bytes("nonsense");
  const auto heard = heard_with({nonsense.begin(), nonsense.end()});
  CHECK_THAT(heard[0], Contains("internal: malformed message"));
  CHECK_THAT(heard[1], Contains("peer_lost: worker 0 is lost: it gave up: malformed message"));
}

TEST_CASE("a worker that a server refuses ends at once with the server's reason") {
  const auto heard = heard_with(ps::encode(ps::Answer{
      .sequence = 0, .failure = ps::Failure{ErrorCode::internal, "there are too many", {0}}}));
  CHECK_THAT(heard[0], Contains("internal: server 0 refuses this worker: there are too many"));
  CHECK_THAT(heard[1], Contains("peer_lost: worker 0 is lost: it gave up: server 0 refuses this "
                                "worker: there are too many"));
}

TEST_CASE("a server that does not say how a call ended that took too long is lost") {
  const Logged log;
  Options options = LocalJob::options();
  options.key_timeout = std::chrono::milliseconds(1000);
  options.stall_report_after = std::chrono::milliseconds(500);
  options.heartbeat_timeout = std::chrono::seconds(2);
  const auto heard = heard_with({}, options);
  // One worker notices it first, and is lost to the other.
  for (const std::string& error : heard) {
    CHECK_THAT(error,
               Contains("server 0 is lost: pushpull of key 'w' reached its time limit, and the "
                        "server has not said how it ended within another 2 s, the longer one of "
                        "key_timeout (TUTTI_TIMEOUT_SECONDS) and heartbeat_timeout"));
  }
  CHECK_THAT(log.text(), Contains("for server 0: has every worker made the same call?"));
}
