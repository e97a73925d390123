#include "ps/scheduler/registry.h"

#include <catch2/catch.hpp>

#include "tutti/version.h"
#include "unit/errors.h"
#include "unit/ps/scheduler/heard.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

/// A scheduler, and all that it has said to each node.
struct RegisteredJob {
  HeardFromScheduler heard;
  Registry registry;

  explicit RegisteredJob(JobSize size = {.workers = 2, .servers = 1})
      : registry(size, 1'000'000, [this](Registry::Node node, const FromScheduler& message) {
          heard.add(node, message);
        }) {}

  /// A job of two workers, nodes 1 and 2, and a server, node 3, in which all are there.
  static std::unique_ptr<RegisteredJob> complete(bool asynchronous = false) {
    auto job = std::make_unique<RegisteredJob>();
    job->registry.receive(1, worker(-1, asynchronous));
    job->registry.receive(2, worker(-1, asynchronous));
    job->registry.receive(3, server());
    job->registry.receive(3, Ready{});
    return job;
  }

  static Register worker(int rank = -1, bool asynchronous = false) {
    return {Role::worker, rank, 2, 1, version(), asynchronous, "", 0};
  }
  static Register server(std::uint16_t port = 77) {
    Register said{Role::server, -1, 2, 1, version(), false, "127.0.0.1", port};
    said.brings = {{}};
    return said;
  }
};

}  // namespace

TEST_CASE("when all are there and the servers are ready each hears its rank and where they are") {
  RegisteredJob job;
  job.registry.receive(3, RegisteredJob::server());
  job.registry.receive(1, RegisteredJob::worker());
  CHECK(job.heard.all.empty());
  job.registry.receive(2, RegisteredJob::worker());
  CHECK(job.registry.is_complete());
  job.heard.last<Gathered>(1);
  CHECK_THROWS_AS(job.registry.receive(1, Locate{}), Error);
  CHECK(job.heard.last<Welcome>(3).rank == 0);
  job.registry.receive(3, Ready{});
  job.heard.last<Begin>(3);
  CHECK(job.heard.last<Welcome>(1).rank == 0);
  CHECK(job.heard.last<Welcome>(2).rank == 1);
  CHECK(job.heard.last<Welcome>(2).servers.at(0).port == 77);
}

TEST_CASE("a server hears up to which request it has to read a worker") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(2, ReadOn{0, 77});
  CHECK(job->heard.last<ReadOn>(3).rank == 1);
  CHECK(job->heard.last<ReadOn>(3).sequence == 77);
  // One that is away hears it later.
  const std::size_t heard = job->heard.all[3].size();
  job->registry.receive(2, ReadOn{5, 78});
  CHECK(job->heard.all[3].size() == heard);
  text_of(ErrorCode::internal, [&] { job->registry.receive(3, ReadOn{0, 1}); });
}

TEST_CASE("each worker hears where it is on its host, and how many hosts of one name there are") {
  RegisteredJob job({.workers = 4, .servers = 1});
  const auto add = [&](Registry::Node node, Register said, const std::string& host) {
    said.workers = 4;
    said.host = "localhost";
    said.host_identity = host;
    job.registry.receive(node, said);
  };
  add(9, RegisteredJob::server(), "third");
  add(4, RegisteredJob::worker(3), "first");
  add(1, RegisteredJob::worker(1), "second");
  add(2, RegisteredJob::worker(0), "first");
  add(3, RegisteredJob::worker(2), "first");
  job.registry.receive(9, Ready{});
  using Locality = Welcome::Locality;
  CHECK(job.heard.last<Welcome>(2).place == Locality{0, 3, 2});
  CHECK(job.heard.last<Welcome>(1).place == Locality{0, 1, 2});
  CHECK(job.heard.last<Welcome>(3).place == Locality{1, 3, 2});
  CHECK(job.heard.last<Welcome>(4).place == Locality{2, 3, 2});
}

TEST_CASE("a rank that is asked for is given if it is free") {
  RegisteredJob job;
  job.registry.receive(1, RegisteredJob::worker(1));
  job.registry.receive(2, RegisteredJob::worker(1));
  job.registry.receive(3, RegisteredJob::server());
  job.registry.receive(3, Ready{});
  CHECK(job.heard.last<Welcome>(1).rank == 1);
  CHECK(job.heard.last<Welcome>(2).rank == 0);
}

TEST_CASE("before all are there a process may be started again") {
  RegisteredJob job;
  job.registry.receive(1, RegisteredJob::worker(0));
  job.registry.lose(1, "it was closed");
  job.registry.receive(2, RegisteredJob::worker(0));
  job.registry.receive(4, RegisteredJob::worker(1));
  job.registry.receive(3, RegisteredJob::server());
  job.registry.receive(3, Ready{});
  CHECK(job.heard.last<Welcome>(2).rank == 0);
}

TEST_CASE("one process too many is refused, and the job goes on") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(9, RegisteredJob::worker());
  const Failure& failure = job->heard.last<Refused>(9).failure;
  CHECK(failure.code == ErrorCode::invalid_argument);
  CHECK_THAT(failure.text, Contains("already has its 2 workers"));
  CHECK_FALSE(job->registry.is_over());
  CHECK(job->heard.all[1].size() == 2);
}

TEST_CASE("a worker that was lost is told that a running job takes it back no more") {
  const auto job = RegisteredJob::complete(true);
  job->registry.lose(2, "it was closed");
  job->registry.receive(9, RegisteredJob::worker(1, true));
  CHECK_THAT(job->heard.last<Refused>(9).failure.text, Contains("worker 1 of this job is lost") &&
                                                           Contains("takes no worker back") &&
                                                           !Contains("DMLC_NUM_WORKER"));
  CHECK_FALSE(job->registry.is_over());
}

TEST_CASE("processes that do not fit together end the job, each knowing why") {
  struct Misfit {
    Register said;
    std::string text;
  };
  Register count = RegisteredJob::worker();
  count.workers = 3;
  Register version = RegisteredJob::worker();
  version.version = "9.9";
  Register ahead = RegisteredJob::worker(-1, true);
  ahead.staleness = 2;
  const Misfit misfits[] = {{count, "DMLC_NUM_WORKER=3"},
                            {version, "tutti 9.9"},
                            {RegisteredJob::worker(-1, true), "asks for an asynchronous store"},
                            {ahead, "an asynchronous store with TUTTI_STALENESS=2"}};
  for (const Misfit& misfit : misfits) {
    RegisteredJob job;
    job.registry.receive(1, RegisteredJob::worker());
    job.registry.receive(2, misfit.said);
    for (const Registry::Node node : std::initializer_list<Registry::Node>{1, 2}) {
      CHECK(job.heard.last<Refused>(node).failure.code == ErrorCode::mismatch);
      CHECK_THAT(job.heard.last<Refused>(node).failure.text, Contains(misfit.text));
    }
    CHECK(job.registry.is_over());
    CHECK_THAT(job.registry.trouble(), Contains(misfit.text));
  }
}

TEST_CASE("a node that waits for processes that never come is told how many are missing") {
  RegisteredJob job;
  job.registry.receive(1, RegisteredJob::worker());
  job.registry.give_up_waiting();
  CHECK(job.heard.last<Refused>(1).failure.code == ErrorCode::timeout);
  CHECK_THAT(job.heard.last<Refused>(1).failure.text,
             Contains("1 of 2 workers and 0 of 1 servers"));
}

TEST_CASE(
    "a node that waits is told which ranks have not come, where nodes have asked for theirs") {
  for (const bool is_asked_for : {true, false}) {
    RegisteredJob job({.workers = 3, .servers = 1});
    Register said = RegisteredJob::worker(is_asked_for ? 2 : -1);
    said.workers = 3;
    job.registry.receive(1, said);
    job.registry.give_up_waiting();
    const Failure failure = job.heard.last<Refused>(1).failure;
    CHECK(failure.ranks == (is_asked_for ? std::vector<int>{0, 1} : std::vector<int>{}));
    CHECK_THAT(failure.text,
               Contains(is_asked_for ? "gave up waiting for worker 0, worker 1, server 0: 1 of 3"
                                     : "gave up waiting for server 0: 1 of 3"));
  }
}

TEST_CASE(
    "a process that ends before all have come ends the wait of those that wait, with its name") {
  const Failure end{ErrorCode::peer_lost, "worker 1 is lost: it ended with exit code 0", {1}};
  SECTION("at once") {
    RegisteredJob job;
    job.registry.receive(1, RegisteredJob::worker(0));
    job.registry.receive(3, RegisteredJob::server());
    job.registry.note_end(end);
    for (const Registry::Node node : {Registry::Node{1}, Registry::Node{3}}) {
      CHECK(job.heard.last<Refused>(node).failure.text == end.text);
    }
    CHECK(job.registry.trouble() == end.text);
  }
  SECTION("as soon as one comes that waits") {
    RegisteredJob job;
    job.registry.receive(3, RegisteredJob::server());
    job.registry.note_end(end);
    job.registry.note_end({ErrorCode::peer_lost, "worker 0 is lost: later", {0}});
    CHECK(job.heard.all.empty());
    CHECK_FALSE(job.registry.is_over());
    job.registry.receive(1, RegisteredJob::worker(0));
    CHECK(job.heard.last<Refused>(1).failure.ranks == std::vector<int>{1});
    CHECK(job.registry.is_over());
  }
}

TEST_CASE("when all have come an end is for the connections to tell") {
  const auto job = RegisteredJob::complete(true);
  job->registry.note_end({ErrorCode::peer_lost, "worker 1 is lost: it ended", {1}});
  CHECK_FALSE(job->registry.is_over());
  CHECK(job->registry.trouble().empty());
}

TEST_CASE("a node that waits is told, too, which processes came and went") {
  RegisteredJob job;
  Register server = RegisteredJob::server();
  server.host = "h1";
  server.process = 5;
  job.registry.receive(1, RegisteredJob::worker());
  for (Registry::Node node = 10; node < 16; ++node) {
    server.process = static_cast<int>(node);
    job.registry.receive(node, server);
    job.registry.lose(node, "it was closed");
  }
  job.registry.give_up_waiting();
  CHECK_THAT(job.heard.last<Refused>(1).failure.text,
             Contains("server 0 came and went: it was closed (process 15 on h1)") &&
                 Contains("process 12 on h1") && !Contains("process 11 on h1"));
}

TEST_CASE("a barrier ends when every worker has come to it") {
  const auto job = RegisteredJob::complete();
  for (int round = 0; round < 2; ++round) {
    job->registry.receive(1, BarrierArrival{});
    CHECK(job->heard.all[1].size() == 2U + static_cast<std::size_t>(round));
    job->registry.receive(2, BarrierArrival{});
    CHECK_FALSE(job->heard.last<BarrierRelease>(1).failure);
    CHECK_FALSE(job->heard.last<BarrierRelease>(2).failure);
  }
}

TEST_CASE("a barrier that a worker has left for good ends with an error") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(1, BarrierArrival{});
  job->registry.receive(2, Goodbye{});
  const auto over = job->heard.last<BarrierRelease>(1);
  REQUIRE(over.failure);
  CHECK(over.failure->code == ErrorCode::aborted);
  CHECK(over.failure->ranks == std::vector<int>{1});
}

TEST_CASE(
    "a barrier that a worker does not come to ends in time, naming it, and the next is whole") {
  const auto job = RegisteredJob::complete();
  CHECK(job->registry.awaited_in_barrier().empty());
  job->registry.receive(1, BarrierArrival{});
  CHECK(job->registry.awaited_in_barrier() == std::vector<int>{1});
  job->registry.give_up_barrier(std::chrono::seconds(1800));
  const auto over = job->heard.last<BarrierRelease>(1);
  REQUIRE(over.failure);
  CHECK(over.failure->code == ErrorCode::timeout);
  CHECK(over.failure->text ==
        "barrier: worker 1 did not come within 1800 s (key_timeout, TUTTI_TIMEOUT_SECONDS)");
  CHECK(over.failure->ranks == std::vector<int>{1});
  CHECK(job->registry.awaited_in_barrier().empty());
  job->registry.receive(1, BarrierArrival{});
  // It is late for the first one, and not in the second one yet.
  job->registry.receive(2, BarrierArrival{});
  CHECK(job->heard.last<BarrierRelease>(2).failure == over.failure);
  CHECK(job->registry.awaited_in_barrier() == std::vector<int>{1});
  job->registry.receive(2, BarrierArrival{});
  CHECK_FALSE(job->heard.last<BarrierRelease>(1).failure);
  CHECK_FALSE(job->heard.last<BarrierRelease>(2).failure);
}

TEST_CASE("the job is over when all workers have finished") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(1, Goodbye{});
  job->registry.receive(1, Finished{});
  CHECK_FALSE(job->registry.is_over());
  job->registry.receive(2, Finished{});
  for (const Registry::Node node : std::initializer_list<Registry::Node>{1, 2, 3})
    job->heard.last<End>(node);
  CHECK(job->registry.is_over());
  CHECK(job->registry.trouble().empty());
}

TEST_CASE("a node that is lost is named to all others, and the job did not end well") {
  const auto job = RegisteredJob::complete();
  job->registry.lose(2, "it was closed");
  for (const Registry::Node node : std::initializer_list<Registry::Node>{1, 3}) {
    const auto& lost = job->heard.last<Lost>(node);
    CHECK(lost.role == Role::worker);
    CHECK(lost.rank == 1);
    CHECK(lost.reason == "it was closed");
  }
  job->registry.receive(1, Finished{});
  CHECK(job->registry.is_over());
  CHECK_THAT(job->registry.trouble(), Contains("worker 1 is lost"));
}

TEST_CASE("a node that has finished may go") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(2, Finished{});
  job->registry.lose(2, "it was closed");
  CHECK(job->heard.all[1].size() == 2);
  CHECK(job->registry.trouble().empty());
}

TEST_CASE("a barrier goes on without a worker that was lost") {
  const auto job = RegisteredJob::complete(true);
  job->registry.receive(1, BarrierArrival{});
  job->registry.lose(2, "it was closed");
  CHECK_FALSE(job->heard.last<BarrierRelease>(1).failure);
}

TEST_CASE("messages out of turn are refused and change nothing") {
  RegisteredJob job;
  CHECK_THAT(text_of(ErrorCode::internal, [&] { job.registry.receive(1, BarrierArrival{}); }),
             Contains("has not registered"));
  job.registry.receive(1, RegisteredJob::worker());
  CHECK_THAT(
      text_of(ErrorCode::internal, [&] { job.registry.receive(1, RegisteredJob::worker()); }),
      Contains("registered already"));
  CHECK_THAT(text_of(ErrorCode::internal, [&] { job.registry.receive(1, Locate{}); }),
             Contains("not all nodes are there"));
  const auto complete = RegisteredJob::complete();
  CHECK_THAT(text_of(ErrorCode::internal, [&] { complete->registry.receive(3, Finished{}); }),
             Contains("only workers"));
  CHECK_THAT(text_of(ErrorCode::internal, [&] { complete->registry.receive(1, Ready{}); }),
             Contains("only a server"));
  Register server = RegisteredJob::server();
  server.brings.clear();
  CHECK_THAT(text_of(ErrorCode::internal, [&] { complete->registry.receive(9, server); }),
             Contains("may begin with"));
}

TEST_CASE("all hear how far workers may run ahead, which they agree on") {
  RegisteredJob job;
  Register ahead = RegisteredJob::worker(-1, true);
  ahead.staleness = 2;
  job.registry.receive(1, ahead);
  job.registry.receive(2, ahead);
  job.registry.receive(3, RegisteredJob::server());
  CHECK(job.heard.last<Welcome>(3).staleness == 2);
  job.registry.receive(3, Ready{});
  CHECK(job.heard.last<Welcome>(1).asynchronous);
}

TEST_CASE("a worker that asks for all values is told of those that others have placed") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(1, Locate{{{"v", 10, DType::f32}, {"w", 10, DType::f32}}});
  job->registry.receive(2, LocateAll{});
  const auto& located = job->heard.last<Located>(2);
  CHECK(located.all);
  CHECK(located.placements.size() == 2);
}

TEST_CASE("asynchronous workers that may run ahead differently far do not fit together") {
  RegisteredJob job;
  Register said = RegisteredJob::worker(-1, true);
  said.staleness = 2;
  job.registry.receive(1, said);
  said.staleness = 3;
  job.registry.receive(2, said);
  CHECK(job.heard.last<Refused>(1).failure.code == ErrorCode::mismatch);
  CHECK_THAT(job.heard.last<Refused>(2).failure.text,
             Contains("TUTTI_STALENESS=3") && Contains("TUTTI_STALENESS=2"));
}

TEST_CASE("a worker that gives up is lost to the others, with its reason") {
  const auto job = RegisteredJob::complete();
  job->registry.receive(2, BarrierArrival{});
  job->registry.receive(1, Stopping{"it gave up: server 0 said \x1b[2J"});
  CHECK(job->heard.last<Lost>(3).reason == "it gave up: server 0 said \\x1b[2J");
  CHECK(job->heard.last<Lost>(3).rank == 0);
  CHECK_THAT(job->registry.trouble(), Contains("worker 0 is lost: it gave up"));
  CHECK_FALSE(job->registry.is_over());
  job->registry.lose(1, "its connection ended");
  job->registry.receive(2, Finished{});
  CHECK(job->registry.is_over());
}

TEST_CASE(
    "a worker that asks for more than a job can have is told why it ends, and so are the others") {
  const auto job = RegisteredJob::complete(true);
  constexpr std::uint64_t too_many = std::uint64_t{1} << 42;
  job->registry.receive(1, Locate{{{"v", too_many, DType::f64}}});
  CHECK(job->heard.last<Refused>(1).failure.code == ErrorCode::internal);
  CHECK_THAT(job->heard.last<Refused>(1).failure.text, Contains("key 'v'") && Contains("at most"));
  CHECK_THAT(job->heard.last<Lost>(2).reason, Contains("key 'v'"));
  job->registry.receive(2, Locate{{{"v", 10, DType::f32}}});
  CHECK(job->heard.last<Located>(2).placements.size() == 1);
}
