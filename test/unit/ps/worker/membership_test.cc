// If a worker's scheduler is gone, the worker reports why, if the launcher tells it.
#include "ps/worker/membership.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/reception.h"
#include "net/sockets.h"
#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;

namespace {

/// Nothing in these tests takes this long unless it hangs.
constexpr auto patience = 10s;
constexpr std::string_view word = "server 1\nserver 1 on h1 ended with exit code 2";
constexpr const char* said =
    "peer_lost: server 1 is lost: server 1 on h1 ended with exit code 2; a store needs all "
    "processes of the job";

/// A job whose scheduler and launcher's helper the test plays.
struct PlayedJob {
  base::Fd scheduler = net::listen_tcp("127.0.0.1");
  std::string helper_name = "membership-test-" + std::to_string(::getpid());
  base::Fd helper = net::listen_abstract(helper_name);

  Job job() const {
    Job job;
    job.root = "127.0.0.1";
    job.port = net::port_of(scheduler);
    job.end_notices = helper_name;
    return job;
  }
  /// The scheduler takes one caller's proof, and is gone.
  void end_the_scheduler() {
    net::Reception reception(
        scheduler,
        {.rank = static_cast<int>(Role::scheduler), .secret = {}, .purpose = scheduler_purpose},
        {.expects = [](int) { return true; }, .count = 1});
    std::vector<net::ProvenPeer> callers;
    for (const auto until = Clock::now() + patience; callers.empty() && Clock::now() < until;) {
      net::wait_readable(reception.descriptor(), until);
      callers = reception.advance();
    }
    scheduler.reset();
  }
  /// The launcher's word of an end, to a process that has named its job.
  void tell() const {
    net::wait_readable(helper, Clock::now() + patience);
    const base::Fd process = net::accept_one(helper);
    if (!process || !net::wait_readable(process, Clock::now() + patience)) return;
    std::array<char, 64> name{};
    ::recv(process.get(), name.data(), name.size(), 0);
    ::send(process.get(), word.data(), word.size(), MSG_NOSIGNAL);
  }
};

}  // namespace

TEST_CASE("a process that the scheduler has not yet taken in says which end took the scheduler") {
  PlayedJob played;
  const Job job = played.job();
  std::thread others([&] {
    played.end_the_scheduler();
    played.tell();
  });
  CHECK(error_of([&] { Membership member(job, Options{}); }) == said);
  others.join();
}

TEST_CASE(
    "a process that loses its membership while it connects says which end took the scheduler") {
  PlayedJob played;
  const Job job = played.job();
  net::Poller poller;
  std::thread helper([&] { played.tell(); });
  CHECK(error_of([&] {
          SchedulerLink link(job, Options{}, poller, 0, [] {
            throw Error(ErrorCode::peer_lost, "the scheduler is lost: it was closed");
          });
        }) == said);
  helper.join();
}
