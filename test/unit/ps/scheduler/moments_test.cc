// How far servers had come in the states that they left, and the texts if these moments differ.
#include "ps/scheduler/moments.h"

#include <catch2/catch.hpp>

#include "ps/durable/state_folder.h"
#include "ps/scheduler/registry.h"
#include "ps/server/image.h"
#include "tutti/version.h"
#include "unit/errors.h"
#include "unit/folder.h"
#include "unit/ps/scheduler/heard.h"
#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

struct Registered {
  HeardFromScheduler heard;
  Registry registry{
      {.workers = 1, .servers = 2},
      1'000'000,
      [this](Registry::Node node, const FromScheduler& message) { heard.add(node, message); },
      99};

  /// The doubt that the worker hears about a state that these servers bring.
  std::string doubt(const std::vector<Brought>& brings) {
    registry.receive(1, Register{Role::worker, -1, 1, 2, version()});
    for (const int rank : {0, 1}) {
      Register said{Role::server, rank, 1, 2, version(), false, "127.0.0.1", 70};
      said.brings = {brings.at(static_cast<std::size_t>(rank))};
      registry.receive(node_of(rank), said);
    }
    for (const int rank : {0, 1}) {
      CHECK(heard.last<Welcome>(node_of(rank)).doubt.empty());
      registry.receive(node_of(rank), Ready{});
    }
    return heard.last<Welcome>(1).doubt;
  }
  static Registry::Node node_of(int rank) { return static_cast<Registry::Node>(rank) + 2; }
};

Brought state(const Moment& moment) {
  return {.job = 7, .held = {}, .moments = {moment}};
}

/// A state as its server has written it.
net::Bytes written(const Table& table, const StateHead& head) {
  const Image image(head);
  return image_bytes(head, table, {&image.deliveries[0], &image.deliveries[1]});
}

constexpr StateHead head_of_two_workers{.job = 7, .rank = 0, .servers = 1, .workers = 2};

}  // namespace

TEST_CASE("states of different moments are named to the workers, with how far each server was") {
  const std::string text = Registered().doubt({state({0, 1000, false}), state({1, 2200, true})});
  CHECK_THAT(text,
             Contains("of different moments") && Contains("server 0: 1000, server 1: 2200 (its"));
  CHECK_THAT(text, Contains("did not end in order") && Contains("--durable"));
}

TEST_CASE("states of a job that ended in order are of one moment, however its keys were used") {
  CHECK(Registered().doubt({state({0, 1000, true}), state({1, 3, true})}).empty());
}

TEST_CASE(
    "states of as many rounds are of one moment, and so are those of which nothing is known") {
  CHECK(Registered().doubt({state({0, 5, false}), state({1, 5, true})}).empty());
  CHECK(Registered().doubt({Brought{.job = 7}, Brought{.job = 7}}).empty());
  CHECK(Registered().doubt({Brought{}, Brought{}}).empty());
}

TEST_CASE("states of different moments that servers restore are named once") {
  const Brought restored{.moments = {{0, 8, false}, {1, 9, false}, {2, 9, false}}};
  const std::string text = Registered().doubt({restored, restored});
  CHECK_THAT(text, Contains("had been in were: server 0: 8, server 1: 9, server 2: 9."));
}

TEST_CASE("of many servers some are named") {
  std::vector<Moment> moments(40);
  for (int server = 0; server < 40; ++server) {
    moments[static_cast<std::size_t>(server)] = {server, static_cast<std::uint64_t>(server)};
  }
  CHECK_THAT(difference_of(moments), Contains("server 15: 15, ...") && !Contains("server 16"));
}

TEST_CASE("a server counts the rounds that changed something, and keeps the number") {
  TableJob job;
  job.init({0});
  for (int i = 0; i < 3; ++i) {
    for (const int worker : {0, 1}) job.say(worker, Kind::push, {1});
  }
  // This one fails.
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1, 2});
  job.say(0, Kind::push, {1});
  CHECK(job.table().rounds() == 4);
  const Folder folder;
  const StateFiles files(state_folder(folder.path()), 0, 1);
  const net::Bytes bytes = written(job.table(), head_of_two_workers);
  write_state(files.disk(), files.prepared(), [&] { return bytes; });
  CHECK(Image::read_prepared(files).moment() == Moment{0, 4, false});
}

TEST_CASE("a key that is reduced and never stored says nothing of how far a server was") {
  TableJob job;
  job.init({0});
  const Floats values{1};
  const auto data = std::as_bytes(std::span(values));
  for (int i = 0; i < 5; ++i) {
    for (const int worker : {0, 1}) {
      job.table().receive(worker, Contribution{.sequence = job.next(worker),
                                               .piece = {"loss", 0, 1},
                                               .kind = Kind::pushpull,
                                               .shape = {1},
                                               .data = data});
    }
  }
  CHECK(job.table().rounds() == 1);
}

TEST_CASE("a state is the last once every worker has left, and not where one is lost") {
  for (const bool is_lost : {false, true}) {
    TableJob job;
    job.init({0});
    job.table().receive(0, Goodbye{});
    CHECK_FALSE(job.table().is_finished());
    if (is_lost) job.table().lose(1, {ErrorCode::peer_lost, "worker 1 is lost", {1}});
    job.table().receive(1, Goodbye{});
    CHECK(job.table().is_finished() == !is_lost);
  }
}

TEST_CASE("servers of an asynchronous job are not compared") {
  StateHead head = head_of_two_workers;
  head.asynchronous = true;
  CHECK_FALSE(Image(head).moment());
  CHECK(Image(head_of_two_workers).moment() == Moment{0, 0, false});
}

TEST_CASE("a state of an earlier format is refused, naming the version that wrote it") {
  TableJob job;
  net::Bytes bytes = written(job.table(), head_of_two_workers);
  bytes[0] = std::byte{2};
  const Folder folder;
  const StateFiles files(state_folder(folder.path()), 0, 1);
  write_state(files.disk(), files.prepared(), [&] { return bytes; });
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { Image::read_prepared(files); }),
             Contains(std::string("tutti ") + version() + " wrote this state") &&
                 Contains("go on with the version that wrote it"));
}
