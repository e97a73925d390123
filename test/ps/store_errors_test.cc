#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "../unit/base/stderr_of.h"
#include "net/reception.h"
#include "net/sockets.h"
#include "ps/link/scheduler_link.h"
#include "ps/local_job.h"
#include "ps/scheduler/scheduler.h"
#include "ps/server/server_process.h"
#include "ps/sleeper.h"
#include "unit/base/logged.h"
#include "unit/errors.h"

using namespace tutti;
using namespace std::chrono_literals;
using Catch::Contains;
using Catch::StartsWith;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

TEST_CASE("workers that disagree all get the same mismatch, and the store lives on") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    Floats values(kv.rank() == 0 ? 2 : 3, 1.0F);
    std::string text;
    try {
      kv.pushpull("g", tensor(values), tensor(values)).wait();
    } catch (const Error& error) {
      text = std::string(name(error.code())) + ": " + error.what();
    }
    values.resize(1);
    kv.pushpull("g", tensor(values), tensor(values)).wait();
    return text + " / " + text_of(values);
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0], Contains("mismatch: key 'g': the calls of workers 1 differ") &&
                          Contains("f32 (2)") && Contains("f32 (3)") && Contains("/ 2"));
}

TEST_CASE("push before init, init twice, and pull of an unknown key are errors on every worker") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    Floats values{1};
    std::string text;
    const auto attempt = [&](const auto& call) {
      try {
        call();
        text += "no error;";
      } catch (const Error& error) {
        text += std::string(error.what()) + ";";
      }
    };
    attempt([&] { kv.push({"w"}, {tensor(values)}).wait(); });
    attempt([&] { kv.pull({"w"}, {tensor(values)}).wait(); });
    kv.init({"w"}, {tensor(values)});
    attempt([&] { kv.init({"w"}, {tensor(values)}); });
    return text;
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0], Contains("push of key 'w': it was never initialised") &&
                          Contains("pull of key 'w': it was never initialised") &&
                          Contains("init of key 'w': it is initialised already"));
}

TEST_CASE("a worker that closes its store aborts the calls that need it, and the others end well") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    Floats values{1};
    if (kv.rank() == 1) return std::string("left");
    kv.pushpull("g", tensor(values), tensor(values)).wait();
    return std::string("no error");
  });
  CHECK(said[1] == "left");
  CHECK_THAT(said[0], Contains("aborted: worker 1 has left the store"));
  CHECK(job.ends() == Said{"", "", ""});
}

TEST_CASE("the error of a call that was under way names the call that the program has made") {
  using Call = std::function<void(KVStore&, const Tensor&)>;
  for (const auto& [called, call] : std::vector<std::pair<std::string, Call>>{
           {"pushpull", [](KVStore&kv, const Tensor&t) { kv.pushpull("g", t, t).wait(); }},
           {"allreduce", [](KVStore&kv, const Tensor&t) { kv.allreduce("g", t, t); }},
           {"bound pushpull", [](KVStore&kv, const Tensor&t) { kv.bind("g", t, t).run(); }}}) {
    LocalJob job({});
    const auto said = job.run([&, call = call](KVStore& kv) {
      Floats values{1};
      if (kv.rank() == 0) call(kv, tensor(values));
      return "no error";
    });
    CHECK_THAT(said[0], Contains("worker 1 has left the store; " + called + " of key 'g'"));
  }
}

TEST_CASE("a worker that dies is peer_lost on the others, by name") {
  LocalJob job({});
  std::string said;
  std::thread survivor([&] {
    said = LocalJob::run_one([](KVStore& kv) {
      Floats values{1};
      kv.pushpull("g", tensor(values), tensor(values)).wait();
      return "no error";
    });
  });
  { const Sleeper dying(job.job(), 1); }
  survivor.join();
  CHECK_THAT(said, Contains("peer_lost: worker 1 is lost: its connection to the scheduler ended"));
  CHECK(job.ends() == Said{"the job did not end well", "", ""});
}

TEST_CASE("a barrier that a worker does not come to is reported and ends after key_timeout") {
  const Logged log;
  LocalJob job({.key_timeout = std::chrono::milliseconds(800)});
  std::atomic<bool> is_over{false};
  const auto said = job.run([&](KVStore& kv) {
    std::string text = "no error";
    while (kv.rank() == 1 && !is_over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    try {
      kv.barrier();
    } catch (const Error& error) {
      text = std::string(name(error.code())) + ": " + error.what();
      CHECK(std::ranges::equal(error.ranks(), std::vector<int>{1}));
    }
    is_over = true;
    kv.barrier();
    return text;
  });
  // A worker that comes late gets the same error, and is in step again.
  CHECK_THAT(said[0], Contains("timeout: barrier: worker 1 did not come within 0.8 s (key_timeout, "
                               "TUTTI_TIMEOUT_SECONDS)"));
  CHECK(said[1] == said[0]);
  const std::string text = log.text();
  const std::size_t first = text.find("a barrier waits for worker 1: ");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("a barrier waits for worker 1: ", first + 1) != std::string::npos);
}

TEST_CASE("a worker whose callback takes longer than heartbeats may be missing is not lost") {
  constexpr auto limit = std::chrono::milliseconds(1000);
  LocalJob job({.heartbeat_timeout = limit});
  Options options = LocalJob::options();
  options.heartbeat_timeout = limit;
  const auto said = job.run(
      [&](KVStore& kv) {
        Floats values{1};
        const Pending first = kv.pushpull("g", tensor(values), tensor(values));
        first.then([&](const std::exception_ptr&) { std::this_thread::sleep_for(3 * limit); });
        first.wait();
        kv.pushpull("g", tensor(values), tensor(values)).wait();
        return text_of(values);
      },
      "dist_sync", options);
  CHECK(said == Said{"4", "4"});
  CHECK(job.ends() == Said{"", "", ""});
}

TEST_CASE("processes that do not come are missed after create_timeout") {
  LocalJob job({.create_timeout = std::chrono::milliseconds(500)});
  std::string said;
  try {
    KVStore::create("dist_sync", LocalJob::options());
  } catch (const Error& error) {
    said = std::string(name(error.code())) + ": " + error.what();
  }
  CHECK_THAT(said, Contains("timeout: the scheduler gave up waiting: 1 of 2 workers and 2 of 2"));
  CHECK(job.ends()[0] == "the job did not end well");
}

TEST_CASE("a scheduler that cannot be reached at all is waited for as one that does not answer") {
  ps::Job job;
  job.root = "255.255.255.255";
  job.port = 9;
  job.has_secret = true;
  Options options = LocalJob::options();
  options.create_timeout = std::chrono::milliseconds(200);
  net::Poller poller;
  try {
    const ps::SchedulerLink link(job, options, poller, 0);
    FAIL("it was reached");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::timeout);
    CHECK_THAT(error.what(), Contains("cannot connect to 255.255.255.255"));
  }
}

TEST_CASE("a durable server that cannot be reached for a time is waited for") {
  const Logged log;
  LocalJob job(
      {.workers = 1, .servers = 1, .create_timeout = std::chrono::milliseconds(1000), .played = 1});
  net::Poller poller;
  std::optional<ps::SchedulerLink> server;
  std::string said;
  std::thread worker([&] {
    said = LocalJob::run_one([](KVStore& kv) {
      Floats values{1};
      kv.pushpull("g", tensor(values), tensor(values)).wait();
      return "no error";
    });
  });
  server.emplace(job.job(), LocalJob::options(), poller, 0);
  server->join({.role = ps::Role::server,
                .workers = 1,
                .servers = 1,
                .version = version(),
                .address = "255.255.255.255",
                .port = 9,
                .durable = true,
                .keeps = true,
                .brings = {{}}});
  server->send(ps::Ready{});
  server->flush();
  const auto deadline = base::Clock::now() + std::chrono::seconds(10);
  while (log.text().find("waits for server 0") == std::string::npos &&
         base::Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  server.reset();
  worker.join();
  CHECK_THAT(log.text(), Contains("worker 0 waits for server 0") &&
                             Contains("cannot connect to 255.255.255.255"));
  CHECK_THAT(said,
             Contains("peer_lost: server 0 is lost") && Contains("did not come back in time"));
}

TEST_CASE(
    "a worker whose scheduler's port a stranger has says so at once, and tries until it is free") {
  const Logged log;
  ps::Job job;
  job.root = "127.0.0.1";
  job.secret.fill(std::byte{7});
  const net::Identity scheduler{.rank = static_cast<int>(ps::Role::scheduler),
                                .secret = job.secret,
                                .purpose = ps::scheduler_purpose};
  base::Fd port = net::listen_tcp("127.0.0.1");
  job.port = net::port_of(port);
  const auto expects = [](int) { return true; };
  std::thread listener([&] {
    {
      net::Identity stranger = scheduler;
      stranger.secret.fill(std::byte{8});
      net::Reception reception(port, stranger, {expects, 1});
      while (log.text().find("does not know the job's key") == std::string::npos) {
        net::wait_readable(reception.descriptor(), base::Clock::now() + 10ms);
        reception.advance();
      }
    }
    net::accept_peers(port, scheduler, {static_cast<int>(ps::Role::worker)},
                      base::Clock::now() + 10s);
  });
  net::Poller poller;
  CHECK(error_of([&] { ps::SchedulerLink(job, LocalJob::options(), poller, 0); }) == "no error");
  listener.join();
  CHECK_THAT(log.text(), Contains("has waited 0 s for the scheduler at 127.0.0.1:") &&
                             Contains("a process that does not know the job's key listens there"));
}

TEST_CASE("a process with another secret gets in nowhere, and the job goes on") {
  LocalJob job({.workers = 1, .servers = 1});
  ps::Job stranger = job.job();
  stranger.secret.fill(std::byte{7});
  Options impatient = LocalJob::options();
  impatient.create_timeout = std::chrono::milliseconds(100);
  net::Poller poller;
  CHECK_THAT(error_of([&] { ps::SchedulerLink(stranger, impatient, poller, 0); }),
             StartsWith("timeout: ") && Contains("does not know the job's key"));
  // Nor does what speaks otherwise.
  const net::Bytes noise(100'000, std::byte{0x41});
  const base::Fd caller = net::start_connecting("127.0.0.1", job.job().port, "");
  net::wait_writable(caller, base::Clock::now() + std::chrono::seconds(5));
  ::send(caller.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  CHECK(job.run([](KVStore& kv) {
    Floats values{1};
    kv.pushpull("g", tensor(values), tensor(values)).wait();
    return text_of(values);
  }) == Said{"1"});
}

TEST_CASE("a value that does not fit its key's pieces is an error for all, and rounds stay whole") {
  LocalJob job({.workers = 2, .servers = 1});
  constexpr std::size_t too_large = std::size_t{70} << 20;
  // Nothing is written there, so it takes no memory.
  const std::unique_ptr<void, void (*)(void*)> zeros(std::calloc(too_large, sizeof(float)),
                                                     std::free);
  const auto said = job.run([&](KVStore& kv) {
    Floats value{0};
    kv.init({"w"}, {tensor(value)});
    std::string text = "no error";
    try {
      const Tensor large(zeros.get(), {std::int64_t{too_large}}, DType::f32);
      kv.push({"w"}, {kv.rank() == 1 ? large : tensor(value)}).wait();
    } catch (const Error& error) {
      text = std::string(name(error.code())) + ": " + error.what();
    }
    value[0] = static_cast<float>(kv.rank() + 1);
    kv.push({"w"}, {tensor(value)}).wait();
    kv.pull({"w"}, {tensor(value)}).wait();
    return text + " / " + text_of(value);
  });
  CHECK_THAT(said[0], Contains("invalid_argument: key 'w': worker 1 could not bring its part") &&
                          Contains("does not fit the key's pieces") && Contains("/ 3"));
  CHECK_THAT(said[1], Contains("invalid_argument: push of key 'w': ") &&
                          Contains("does not fit the key's pieces") && Contains("/ 3"));
}

TEST_CASE("a call that times out half sent ends alike on all, and is no part of a later one") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 1000});
  const auto attempt = [](KVStore& kv, Floats values) {
    try {
      kv.pushpull("w", tensor(values), tensor(values)).wait();
      return text_of({values[0]});
    } catch (const Error& error) {
      return std::string(name(error.code()));
    }
  };
  const auto until_done = [&](KVStore& kv, float value) {
    std::string said = "timeout";
    while (said == "timeout") said = attempt(kv, {value});
    return said;
  };
  const Floats large(std::size_t{16} << 20, 1);
  std::string impatient;
  std::thread other([&] {
    Options options = LocalJob::options();
    options.key_timeout = std::chrono::milliseconds(5);
    impatient = LocalJob::run_one(
        [&](KVStore& kv) {
          std::string said = attempt(kv, large);
          std::this_thread::sleep_for(std::chrono::seconds(1));  // messages under way leave
          said += " " + until_done(kv, 1);
          kv.barrier();
          return said;
        },
        "dist_sync", options);
  });
  const std::string patient = LocalJob::run_one([&](KVStore& kv) {
    std::string said = attempt(kv, large);
    said += " " + until_done(kv, 2);
    kv.barrier();
    return said;
  });
  other.join();
  CHECK(patient == impatient);
  CHECK((patient == "timeout 3" || patient == "2 3"));
}

TEST_CASE("a store with servers records no timeline and says so when one is asked for") {
  const LocalJob job({.workers = 1, .servers = 1});
  Options options = LocalJob::options();
  options.timeline = "trace.json";
  const std::string log =
      stderr_of([&] { LocalJob::run_one([](KVStore&) { return ""; }, "dist_sync", options); });
  CHECK(lines_of(log).size() == 1);
  CHECK_THAT(log, Contains("'dist_sync' records no timeline") && Contains("'trace.json'"));
}
