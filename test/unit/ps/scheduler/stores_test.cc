// One store after another, as the scheduler sees them.
#include "ps/scheduler/stores.h"

#include <catch2/catch.hpp>

#include "tutti/version.h"
#include "unit/errors.h"
#include "unit/ps/scheduler/heard.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

/// A job of two workers and a server. Worker i is process 10 + i and in its n-th store node
/// 100 * n + i; the server is node 3.
struct JobOfStores {
  HeardFromScheduler heard;
  std::uint64_t ids = 0;
  int turn = 0;
  Stores stores{
      {.workers = 2, .servers = 1},
      1'000'000,
      [this](Stores::Node node, const FromScheduler& message) { heard.add(node, message); },
      [this] { return ++ids; }};

  explicit JobOfStores(bool durable = false) : durable_(durable) {
    for (const int worker : {1, 2}) stores.receive(process(worker), Stay{});
  }

  static Stores::Node process(int worker) { return 10 + static_cast<Stores::Node>(worker); }
  Stores::Node node(int worker) const {
    return 100 * static_cast<Stores::Node>(turn) + static_cast<Stores::Node>(worker);
  }

  void come(int worker, bool asynchronous = false) {
    Register said{Role::worker, worker - 1, 2, 1, version(), asynchronous, "", 0};
    said.host = "h";
    said.process = worker;
    said.membership = heard.last<Staying>(process(worker)).membership;
    stores.receive(node(worker), said);
  }
  void bring_server(Stores::Node node = 3) {
    Register said{Role::server, 0, 2, 1, version(), false, "127.0.0.1", 77};
    said.brings = {{}};
    said.durable = durable_;
    stores.receive(node, said);
  }
  void begin(bool asynchronous = false) {
    ++turn;
    for (const int worker : {1, 2}) come(worker, asynchronous);
    bring_server();
    stores.receive(3, Ready{});
  }
  void finish() {
    for (const int worker : {1, 2}) stores.receive(node(worker), Finished{});
    // Their connections end, and they live on.
    for (const int worker : {1, 2}) stores.lose(node(worker), "it was closed");
  }

 private:
  const bool durable_;
};

}  // namespace

TEST_CASE("a store follows another with a new number, a new type and no value of the first") {
  JobOfStores job;
  job.begin();
  const Welcome first = job.heard.last<Welcome>(job.node(1));
  job.stores.receive(job.node(1), Locate{{{"w", 5}}});
  job.finish();
  job.heard.last<End>(3);
  CHECK_FALSE(job.stores.is_over());
  CHECK_FALSE(job.stores.is_gathering());
  ++job.turn;
  job.come(1, true);
  CHECK(job.stores.is_gathering());
  job.heard.last<Another>(3);
  job.come(2, true);
  job.bring_server();
  job.stores.receive(3, Ready{});
  const Welcome second = job.heard.last<Welcome>(job.node(1));
  CHECK(second.job != first.job);
  CHECK(second.asynchronous);
  CHECK(second.rank == first.rank);
  job.stores.receive(job.node(1), LocateAll{});
  CHECK(job.heard.last<Located>(job.node(1)).placements.empty());
}

TEST_CASE("the job is over when all processes of its workers have ended, and not before") {
  JobOfStores job;
  job.begin();
  // One of them ends as soon as it is done, though another has still to finish.
  job.stores.receive(job.node(1), Finished{});
  job.stores.lose(job.node(1), "it was closed");
  job.stores.lose(JobOfStores::process(1), "it was closed");
  job.stores.receive(job.node(2), Finished{});
  job.heard.last<End>(3);
  CHECK_FALSE(job.stores.is_over());
  job.stores.lose(JobOfStores::process(2), "it was closed");
  CHECK(job.stores.is_over());
  CHECK(job.stores.trouble().empty());
  job.heard.last<Over>(3);
}

TEST_CASE("a worker that creates another store than those that have ended hears which they are") {
  const bool ends_first = GENERATE(true, false);
  JobOfStores job;
  job.begin();
  job.finish();
  ++job.turn;
  if (ends_first) job.stores.lose(JobOfStores::process(2), "it was closed");
  job.come(1);
  if (!ends_first) job.stores.lose(JobOfStores::process(2), "it was closed");
  const Failure failure = job.heard.last<Refused>(job.node(1)).failure;
  CHECK(failure.code == ErrorCode::peer_lost);
  CHECK(failure.ranks == std::vector<int>{1});
  CHECK_THAT(failure.text,
             Contains("worker 1 (process 2 on h) has ended since the job's last store"));
  CHECK(job.stores.is_over());
  CHECK(job.stores.trouble() == failure.text);
}

TEST_CASE(
    "a worker's process that ended during a store is missed in the next, unless it was lost") {
  JobOfStores job;
  job.begin(true);
  job.stores.lose(JobOfStores::process(2), "it was closed");
  job.stores.lose(job.node(2), "its connection ended");
  job.stores.receive(job.node(1), Finished{});
  CHECK(job.stores.is_over());
  CHECK_THAT(job.stores.trouble(), Contains("worker 1 is lost: its connection ended"));
  CHECK(job.heard.last<Refused>(JobOfStores::process(1)).failure.text == job.stores.trouble());
  job.heard.last<Over>(3);
}

TEST_CASE("workers that create no other store are named to the one that waits for them") {
  JobOfStores job;
  job.begin();
  job.finish();
  ++job.turn;
  job.come(1);
  job.bring_server();
  job.stores.give_up_waiting(std::chrono::seconds(20));
  const Failure failure = job.heard.last<Refused>(job.node(1)).failure;
  CHECK(failure.code == ErrorCode::timeout);
  CHECK(failure.ranks == std::vector<int>{1});
  CHECK_THAT(failure.text, Contains("worker 1 (process 2 on h) has not created another store") &&
                               Contains("20 s (create_timeout, TUTTI_CREATE_SECONDS)"));
  job.heard.last<Over>(3);
}

TEST_CASE("another process takes no part in a later store") {
  JobOfStores job;
  job.begin();
  job.finish();
  ++job.turn;
  Register said{Role::worker, 0, 2, 1, version(), false, "", 0};
  job.stores.receive(99, Stay{});
  said.membership = job.heard.last<Staying>(99).membership;
  job.stores.receive(100, said);
  CHECK_THAT(job.heard.last<Refused>(100).failure.text,
             Contains("worker 0 (process 1 on h), worker "
                      "1 (process 2 on h)"));
  job.begin();
  CHECK(job.heard.last<Welcome>(302).rank == 1);
}

TEST_CASE("a server that is lost between two stores ends the job, unless it is started again") {
  const bool durable = GENERATE(false, true);
  const bool is_called = GENERATE(false, true);
  JobOfStores job(durable);
  job.begin();
  job.finish();
  ++job.turn;
  if (is_called) job.come(1);
  job.stores.lose(3, "it was closed");
  CHECK(job.stores.is_over() == !durable);
  if (!durable) {
    CHECK_THAT(job.stores.trouble(), Contains("server 0 is lost: it was closed"));
    CHECK(job.heard.last<Refused>(JobOfStores::process(2)).failure.text == job.stores.trouble());
    return;
  }
  if (!is_called) job.come(1);
  SECTION("it is started again") {
    job.bring_server(4);
    job.come(2);
    job.stores.receive(4, Ready{});
    job.heard.last<Welcome>(job.node(2));
  }
  SECTION("it is not, and workers that wait hear why it went") {
    job.come(2);
    job.stores.give_up_waiting(std::chrono::seconds(20));
    CHECK_THAT(job.heard.last<Refused>(job.node(2)).failure.text,
               Contains("server 0 came and went: it was closed"));
  }
}

TEST_CASE("a server's messages of a store that is over count for nothing in the next") {
  JobOfStores job;
  job.begin();
  job.finish();
  job.stores.receive(3, Ready{});
  job.stores.receive(3, Locate{{{"w", 5}}});
  job.begin();
  CHECK(job.heard.last<Welcome>(job.node(1)).rank == 0);
}

TEST_CASE("SIGTERM of the scheduler is told to processes and servers that have no store") {
  JobOfStores job;
  job.begin();
  job.finish();
  job.stores.stop("it was ended by SIGTERM");
  CHECK(job.stores.is_over());
  CHECK(job.heard.last<Lost>(JobOfStores::process(1)).reason == "it was ended by SIGTERM");
  CHECK(job.heard.last<Lost>(3).role == Role::scheduler);
}

TEST_CASE("a worker's process says nothing more, and no node of a store is one") {
  JobOfStores job;
  job.begin();
  CHECK_THAT(error_of([&] { job.stores.receive(JobOfStores::process(1), Finished{}); }),
             Contains("a message out of turn"));
  CHECK_THAT(error_of([&] { job.stores.receive(job.node(1), Stay{}); }),
             Contains("a message out of turn"));
}
