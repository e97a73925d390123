// Servers that may be started again, and servers that bring the state of another job.
#include <catch2/catch.hpp>

#include "ps/scheduler/registry.h"
#include "tutti/version.h"
#include "unit/errors.h"
#include "unit/ps/scheduler/heard.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

constexpr std::uint64_t this_job = 99;

Register worker() {
  return {Role::worker, -1, 1, 2, version(), false, "", 0};
}

Register server(int rank, std::uint64_t job = 0, std::uint16_t port = 70) {
  Register said{Role::server, rank, 1, 2, version(), false, "127.0.0.1", port};
  said.durable = true;
  said.brings = {{job}};
  said.host = "h1";
  said.process = 5;
  return said;
}

/// A job of one worker, node 1, and two durable servers, nodes 2 and 3.
struct DurableJob {
  HeardFromScheduler heard;
  Registry registry{
      {.workers = 1, .servers = 2},
      1'000'000,
      [this](Registry::Node node, const FromScheduler& message) { heard.add(node, message); },
      this_job};

  void begin() {
    registry.receive(1, worker());
    registry.receive(2, server(0));
    registry.receive(3, server(1));
    all_are_ready();
    CHECK(heard.last<Welcome>(1).job == this_job);
    CHECK(heard.last<Welcome>(1).servers.at(1).durable);
  }
  void all_are_ready() {
    registry.receive(2, Ready{});
    registry.receive(3, Ready{});
  }
};

}  // namespace

TEST_CASE("a durable server that is lost is waited for, and the others hear where it comes back") {
  DurableJob job;
  job.begin();
  job.registry.lose(3, "it was closed");
  CHECK(job.registry.servers_away() == std::vector{1});
  CHECK(job.heard.last<Away>(1).rank == 1);
  CHECK(job.heard.last<Away>(2).reason == "it was closed (process 5 on h1)");
  job.registry.receive(9, server(1, this_job, 71));
  CHECK(job.heard.last<Welcome>(9).rank == 1);
  CHECK(job.heard.last<Welcome>(9).servers.at(0).port == 70);
  CHECK(job.heard.last<Returned>(1).rank == 1);
  CHECK(job.heard.last<Returned>(1).port == 71);
  CHECK(job.registry.servers_away().empty());
  CHECK(job.registry.trouble().empty());
}

TEST_CASE("a server that does not come back in time is lost") {
  DurableJob job;
  job.begin();
  job.registry.lose(2, "it was closed");
  job.registry.give_up_on_server(0, std::chrono::seconds(300));
  CHECK(job.heard.last<Lost>(1).role == Role::server);
  CHECK(job.heard.last<Lost>(1).rank == 0);
  CHECK_THAT(job.heard.last<Lost>(1).reason,
             Contains("did not come back in time") &&
                 Contains("read its state and come back within 300 s") &&
                 Contains("TUTTI_CREATE_SECONDS"));
  CHECK_THAT(job.registry.trouble(), Contains("server 0 is lost"));
  job.registry.receive(9, server(0, this_job));
  CHECK_THAT(job.heard.last<Refused>(9).failure.text, Contains("already has its 2 servers"));
}

TEST_CASE("of several servers that are away one alone is given up") {
  DurableJob job;
  job.begin();
  job.registry.lose(2, "it was closed");
  job.registry.lose(3, "it was closed");
  CHECK(job.registry.servers_away() == std::vector{0, 1});
  job.registry.give_up_on_server(1, std::chrono::seconds(300));
  CHECK(job.registry.servers_away() == std::vector{0});
  CHECK(job.heard.last<Lost>(1).rank == 1);
}

TEST_CASE("only the state of this job takes the place of a server that is away") {
  DurableJob job;
  job.begin();
  job.registry.lose(2, "it was closed");
  for (const std::uint64_t other : {std::uint64_t{0}, this_job + 1}) {
    job.registry.receive(9, server(0, other));
    CHECK_THAT(job.heard.last<Refused>(9).failure.text, Contains("start it with the --state"));
  }
  CHECK(job.registry.servers_away() == std::vector{0});
}

TEST_CASE("a server that comes again before its former process was missed takes its place") {
  DurableJob job;
  job.begin();
  job.registry.receive(9, server(1, this_job, 71));
  CHECK(job.heard.last<Welcome>(9).rank == 1);
  CHECK(job.heard.last<Returned>(1).port == 71);
  const std::size_t heard = job.heard.all[1].size();
  job.registry.lose(3, "its heartbeats are missing");
  CHECK(job.heard.all[1].size() == heard);
}

TEST_CASE("a server that returns hears which workers were lost meanwhile") {
  HeardFromScheduler heard;
  Registry registry(
      {.workers = 2, .servers = 1}, 1000,
      [&](Registry::Node node, const FromScheduler& message) { heard.add(node, message); },
      this_job);
  const Register asynchronous{Role::worker, -1, 2, 1, version(), true, "", 0};
  Register only{Role::server, 0, 2, 1, version(), false, "127.0.0.1", 70};
  only.durable = true;
  registry.receive(1, asynchronous);
  registry.receive(2, asynchronous);
  only.brings = {{}};
  registry.receive(3, only);
  registry.receive(3, Ready{});
  registry.lose(3, "it was closed");
  registry.lose(2, "it was closed");
  only.brings = {{this_job}};
  registry.receive(9, only);
  REQUIRE(heard.all[9].size() == 2);
  CHECK(std::get<Welcome>(heard.all[9][0]).asynchronous);
  CHECK(std::get<Lost>(heard.all[9][1]).rank == 1);
}

TEST_CASE("a server that is told to end says so, and is lost for that reason") {
  DurableJob job;
  job.begin();
  job.registry.receive(1, Stopping{"it was ended by SIGTERM"});
  CHECK_THAT(job.registry.trouble(), Contains("worker 0 is lost: it was ended by SIGTERM"));
}

TEST_CASE("values that servers bring stay where they are") {
  DurableJob job;
  Register first = server(0, 7);
  first.brings[0].held = {{{"w", 1, 2}, 10, DType::f32}};
  Register second = server(1, 7);
  second.brings[0].held = {{{"w", 0, 2}, 10, DType::f32}, {{"v", 0, 1}, 1000, DType::f32}};
  job.registry.receive(2, first);
  job.registry.receive(3, second);
  job.registry.receive(1, worker());
  job.all_are_ready();
  CHECK(job.heard.last<Welcome>(1).rank == 0);
  job.registry.receive(1, Locate{{{"w", 20, DType::f32}, {"new", 5, DType::f32}}});
  CHECK(job.heard.last<Located>(1).placements.at(0).places == Places{{1, 0}, 2});
  // These pieces count as bytes of their servers.
  CHECK(job.heard.last<Located>(1).placements.at(1).places == Places{{0}, 1});
}

TEST_CASE("states that do not belong together are refused") {
  DurableJob job;
  job.registry.receive(2, server(0, 7));
  job.registry.receive(3, server(1, 8));
  CHECK_THAT(job.heard.last<Refused>(2).failure.text,
             Contains("server 1 brings the state of an earlier job, and server 0"));
  CHECK(job.registry.is_over());
}

TEST_CASE("the prepared state of an interrupted start counts if every server has it") {
  const Register old = server(0, 7);
  Register between = server(0, 7);
  between.brings.push_back({8});
  Register empty_before = server(0, 0);
  empty_before.brings.push_back({8});
  const Register only_new = server(0, 8);
  struct Start {
    Register first;
    Register second;
    std::uint64_t begins_with;
  };
  const Start starts[] = {{old, between, 7},          {between, old, 7},
                          {between, between, 8},      {between, only_new, 8},
                          {only_new, between, 8},     {empty_before, server(0), 0},
                          {only_new, empty_before, 8}};
  for (const Start& start : starts) {
    DurableJob job;
    Register second = start.second;
    second.rank = 1;
    job.registry.receive(2, start.first);
    job.registry.receive(3, second);
    job.registry.receive(1, worker());
    for (const Registry::Node node : {2U, 3U}) {
      CHECK(job.heard.last<Welcome>(node).begins_with == start.begins_with);
    }
  }
}

TEST_CASE("the values of a state with which nobody begins are nowhere") {
  DurableJob job;
  for (const int rank : {0, 1}) {
    Register said = server(rank, 7);
    said.brings.push_back({8, {{{"w", static_cast<std::uint32_t>(rank), 2}, 10, DType::f32}}});
    if (rank == 1) said.brings.pop_back();
    job.registry.receive(rank == 0 ? 2 : 3, said);
  }
  job.registry.receive(1, worker());
  CHECK(job.heard.last<Welcome>(2).dropped.empty());
  job.all_are_ready();
  job.registry.receive(1, LocateAll{});
  CHECK(job.heard.last<Located>(1).placements.empty());
}

TEST_CASE("states of which none is every server's are refused") {
  DurableJob job;
  Register both = server(0, 7);
  both.brings.push_back({8});
  Register newer = server(1, 9);
  job.registry.receive(2, both);
  job.registry.receive(3, newer);
  CHECK_THAT(job.heard.last<Refused>(3).failure.text,
             Contains("server 1 brings the state of an earlier job, and server 0 brings the state "
                      "of an earlier job, but of another"));
  CHECK(job.registry.is_over());
}

TEST_CASE("no server drops its old state before all are ready, and workers wait for that") {
  DurableJob job;
  job.registry.receive(1, worker());
  job.registry.receive(2, server(0, 7));
  job.registry.receive(3, server(1, 7));
  job.registry.receive(2, Ready{});
  CHECK(std::holds_alternative<Welcome>(job.heard.all[2].back()));
  CHECK(std::holds_alternative<Gathered>(job.heard.all[1].back()));
  job.registry.receive(3, Ready{});
  job.heard.last<Begin>(2);
  job.heard.last<Begin>(3);
  CHECK(job.heard.last<Welcome>(1).servers.size() == 2);
}

TEST_CASE("servers that take too long to begin are named, and the job ends") {
  DurableJob job;
  job.registry.receive(1, worker());
  job.registry.receive(2, server(0));
  CHECK(job.registry.servers_not_ready().empty());
  job.registry.receive(3, server(1));
  CHECK(job.registry.servers_not_ready() == std::vector{0, 1});
  job.registry.receive(2, Ready{});
  job.registry.give_up_beginning(std::chrono::seconds(1800));
  for (const Registry::Node node : {1U, 2U, 3U}) {
    const Failure failure = job.heard.last<Refused>(node).failure;
    CHECK(failure.code == ErrorCode::timeout);
    CHECK(failure.text ==
          "server 1 did not write the state with which the job begins within 1800 s (key_timeout, "
          "TUTTI_TIMEOUT_SECONDS)");
  }
  CHECK(job.registry.is_over());
}

TEST_CASE("a server that comes back is not ready until it says so") {
  DurableJob job;
  job.begin();
  CHECK(job.registry.servers_not_ready().empty());
  job.registry.lose(3, "it was closed");
  CHECK(job.registry.servers_not_ready() == std::vector{1});
  job.registry.receive(4, server(1, this_job));
  CHECK(job.registry.servers_not_ready() == std::vector{1});
  job.registry.receive(4, Ready{});
  CHECK(job.registry.servers_not_ready().empty());
}

TEST_CASE("a server that is killed while it begins begins again with the state that it brought") {
  for (const std::uint64_t before : {std::uint64_t{0}, std::uint64_t{7}}) {
    DurableJob job;
    job.registry.receive(1, worker());
    job.registry.receive(2, server(0, before));
    job.registry.receive(3, server(1, before));
    job.registry.receive(2, Ready{});
    job.registry.lose(2, "it was closed");
    job.registry.receive(3, Ready{});
    job.registry.receive(8, server(0, before + 1));
    CHECK_THAT(job.heard.last<Refused>(8).failure.text, Contains("the job waits for server 0"));
    // It has prepared what the others do not know of, so that it begins once more.
    Register again = server(0, before);
    again.brings.push_back({this_job});
    job.registry.receive(9, again);
    CHECK(job.heard.last<Welcome>(9).begins_with == before);
    CHECK(std::holds_alternative<Returned>(job.heard.all[3].back()));
    job.registry.receive(9, Ready{});
    job.heard.last<Begin>(3);
    job.heard.last<Begin>(9);
    job.heard.last<Welcome>(1);
  }
}

TEST_CASE("a server that is killed before it has heard that all are ready goes on from this job") {
  DurableJob job;
  job.begin();
  job.registry.lose(2, "it was closed");
  job.registry.receive(8, server(0));
  CHECK_THAT(job.heard.last<Refused>(8).failure.text, Contains("that it kept of this job"));
  Register again = server(0);
  again.brings.push_back({this_job});
  job.registry.receive(9, again);
  CHECK(job.heard.last<Welcome>(9).begins_with == this_job);
  job.registry.receive(9, Ready{});
  job.heard.last<Begin>(9);
}

TEST_CASE("a worker hears behind its welcome of those that were lost while the servers began") {
  HeardFromScheduler heard;
  Registry registry(
      {.workers = 2, .servers = 1}, 1000,
      [&](Registry::Node node, const FromScheduler& message) { heard.add(node, message); },
      this_job);
  const Register asynchronous{Role::worker, -1, 2, 1, version(), true, "", 0};
  Register only = server(0);
  only.workers = 2;
  only.servers = 1;
  registry.receive(1, asynchronous);
  registry.receive(2, asynchronous);
  registry.receive(3, only);
  registry.lose(2, "it was closed");
  registry.receive(3, Ready{});
  REQUIRE(heard.all[1].size() >= 2);
  CHECK(std::holds_alternative<Welcome>(heard.all[1][heard.all[1].size() - 2]));
  CHECK(heard.last<Lost>(1).rank == 1);
}

TEST_CASE("a key of which servers bring some pieces alone is dropped, and all others stay") {
  DurableJob job;
  Register first = server(0, 7);
  first.brings[0].held = {{{"w", 1, 2}, 1000, DType::f32}, {{"v", 1, 2}, 10, DType::f32}};
  Register second = server(1, 7);
  second.brings[0].held = {{{"v", 0, 2}, 20, DType::f32}};
  job.registry.receive(2, first);
  job.registry.receive(3, second);
  job.registry.receive(1, worker());
  for (const Registry::Node node : {2U, 3U}) {
    CHECK(job.heard.last<Welcome>(node).dropped == std::vector<Key>{"w"});
  }
  job.all_are_ready();
  job.registry.receive(1, Locate{{{"v", 30, DType::f32}, {"w", 5, DType::f32}}});
  CHECK(job.heard.last<Located>(1).placements.at(0).places == Places{{1, 0}, 2});
  // It counts as nothing, and is placed as any new one.
  CHECK(job.heard.last<Located>(1).placements.at(1).places == Places{{0}, 1});
}

TEST_CASE("a server that was killed while it began hears, too, which keys are dropped") {
  DurableJob job;
  Register first = server(0, 7);
  first.brings[0].held = {{{"w", 1, 2}, 1000, DType::f32}};
  job.registry.receive(2, first);
  job.registry.receive(3, server(1, 7));
  job.registry.receive(1, worker());
  job.registry.lose(2, "it was closed");
  job.registry.receive(9, first);
  CHECK(job.heard.last<Welcome>(9).dropped == std::vector<Key>{"w"});
}

TEST_CASE("two durable servers of one rank are told, and the job goes on") {
  DurableJob job;
  job.registry.receive(2, server(0));
  job.registry.receive(4, server(0));
  CHECK_THAT(job.heard.last<Refused>(4).failure.text, Contains("its own DMLC_RANK"));
  CHECK_FALSE(job.registry.is_over());
}

TEST_CASE("a server may ask where values are, once all are there") {
  DurableJob job;
  job.registry.receive(2, server(0));
  CHECK_THROWS_AS(job.registry.receive(2, Locate{}), Error);
  job.registry.receive(3, server(1));
  job.registry.receive(1, worker());
  job.registry.receive(2, Locate{{{"w", 20, DType::f32}}});
  CHECK(job.heard.last<Located>(2).placements.size() == 1);
}
