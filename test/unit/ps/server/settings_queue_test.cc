// Optimizers on their way into a server, and what asynchronous stores do with them.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "unit/errors.h"
#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

TEST_CASE("an optimizer updates the value by the sum, once a round") {
  TableJob job;
  job.init({1});
  const Optimizer sgd{"sgd", {{"learning_rate", 0.5}}};
  job.set(0, sgd);
  CHECK(job.heard.empty());
  job.set(1, sgd);
  CHECK(job.heard.size() == 2);
  job.heard.clear();
  job.say(0, Kind::pushpull, {1});
  job.say(1, Kind::pushpull, {2});
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[0].values == Floats{-0.5F});
  CHECK(job.stored(1) == Floats{-0.5F});
}

TEST_CASE("an optimizer has its factors of the key, and keeps its state with new parameters") {
  TableJob job(1);
  job.init({0});
  Optimizer sgd{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}, {{"w", {.learning_rate = 2}}}};
  job.set(0, sgd);
  job.say(0, Kind::push, {1});
  CHECK(job.stored(1) == Floats{-2});
  sgd.parameters["learning_rate"] = 0;
  job.set(0, sgd);
  job.say(0, Kind::push, {1});
  CHECK(job.stored(1) == Floats{-3});
}

TEST_CASE("workers that give different optimizers are told, and nothing changes") {
  TableJob job;
  job.init({5});
  job.set(0, {"sgd", {{"learning_rate", 0.5}}});
  job.set(1, {"adam"});
  CHECK_THAT(job.common_failure(ErrorCode::mismatch),
             Contains("worker 1 passed 'adam', but worker 0 passed 'sgd'"));
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1});
  CHECK(job.stored(1) == Floats{2});
}

TEST_CASE("an optimizer that is unknown is an error for all") {
  TableJob job;
  job.set(0, {"sdg"});
  job.set(1, {"sdg"});
  CHECK_THAT(job.common_failure(ErrorCode::invalid_argument), Contains("sgd"));
}

TEST_CASE("lamb is refused for a value that was cut before it was set") {
  TableJob job(1);
  job.set(0, {"lamb"});
  const Floats values{1, 2};
  const PieceName piece{"w", 1, 2};
  const auto data = std::as_bytes(std::span(values).first(1));
  job.table().receive(
      0,
      Contribution{
          .sequence = job.next(0), .piece = piece, .kind = Kind::init, .shape = {2}, .data = data});
  job.table().receive(
      0, Contribution{.sequence = job.next(0), .piece = piece, .shape = {2}, .data = data});
  REQUIRE(job.heard.back().failure);
  CHECK_THAT(job.heard.back().failure->text, Contains("lamb needs the norm") &&
                                                 Contains("into 2 pieces") &&
                                                 Contains("set_optimizer before"));
}

TEST_CASE("an asynchronous store updates at once and goes on without a lost worker") {
  TableJob job(2, true);
  job.init({1});
  job.set(1, {"sgd"});
  CHECK(job.heard.empty());
  job.set(0, {"sgd", {{"learning_rate", 1}}});
  CHECK(job.heard.size() == 2);
  job.say(1, Kind::push, {2});
  CHECK(job.stored(1) == Floats{-1});
  job.table().lose(1, {ErrorCode::peer_lost, "worker 1 is lost", {1}});
  job.say(0, Kind::push, {2});
  CHECK(job.stored(1) == Floats{-3});
}

TEST_CASE("an asynchronous push without an optimizer is an error") {
  TableJob job(2, true);
  job.init({1});
  job.say(0, Kind::push, {1});
  REQUIRE(job.heard.size() == 1);
  REQUIRE(job.heard[0].failure);
  CHECK_THAT(job.heard[0].failure->text, Contains("call set_optimizer first"));
}

TEST_CASE("an asynchronous pushpull of a key without a value reduces over all workers") {
  TableJob job(2, true);
  job.say(0, Kind::pushpull, {1});
  CHECK(job.heard.empty());
  job.say(1, Kind::pushpull, {2});
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[0].values == Floats{3});
}

TEST_CASE("all workers must ask for the same compression") {
  TableJob job;
  const auto ask = [&](int worker, Encoding encoding, float threshold) {
    job.table().receive(worker, SetCompression{job.next(worker), {encoding, threshold}});
  };
  ask(0, Encoding::two_bits, 0.5F);
  CHECK(job.heard.empty());
  ask(1, Encoding::two_bits, 0.5F);
  REQUIRE(job.heard.size() == 2);
  CHECK_FALSE(job.heard[0].failure);
  job.heard.clear();
  ask(0, Encoding::two_bits, 0.5F);
  ask(1, Encoding::two_bits, 0.25F);
  CHECK_THAT(job.common_failure(ErrorCode::mismatch),
             Contains("set_gradient_compression: worker 1 passed '2bit' with threshold "
                      "0.25, but worker 0 passed '2bit' with threshold 0.5"));
  job.heard.clear();
  ask(0, Encoding::fp16, 0);
  job.set(1, {"sgd"});
  CHECK_THAT(job.common_failure(ErrorCode::mismatch),
             Contains("worker 1 called set_optimizer, but worker 0 called "
                      "set_gradient_compression"));
}

TEST_CASE("an asynchronous worker that sets something else than worker 0 is told") {
  TableJob job(3, true);
  job.init({1});
  job.set(0, {"sgd", {{"learning_rate", 1}}});
  job.set(1, {"adam"});
  job.set(2, {"sgd", {{"learning_rate", 1}}});
  REQUIRE(job.heard.size() == 3);
  CHECK_FALSE(job.heard[0].failure);
  REQUIRE(job.heard[1].failure);
  CHECK(job.heard[1].failure->code == ErrorCode::mismatch);
  CHECK_THAT(job.heard[1].failure->text,
             Contains("worker 1 passed 'adam', but worker 0 passed 'sgd'"));
  CHECK_FALSE(job.heard[2].failure);
  job.say(1, Kind::push, {1});
  CHECK(job.stored(1) == Floats{0});
}

namespace {

Optimizer rate(double learning_rate) {
  return {"sgd", {{"learning_rate", learning_rate}}};
}

Failure loss_of(int worker) {
  return {ErrorCode::peer_lost, fmt::format("worker {} is lost", worker), {worker}};
}

/// Three asynchronous workers. Worker 0 is lost after its first setting.
class Led {
 public:
  Led() {
    job.init({1});
    job.set(0, rate(1));
    job.set(1, rate(1));
    job.table().lose(0, loss_of(0));
    job.heard.clear();
  }
  TableJob job{3, true};
};

}  // namespace

TEST_CASE("an asynchronous store is led by the lowest worker that is there") {
  Led led;
  TableJob& job = led.job;
  SECTION("it goes on behind what worker 0 has set") {
    job.set(1, rate(2));
    job.set(2, rate(1));
    job.set(2, rate(2));
    REQUIRE(job.heard.size() == 3);
    for (const Heard& one : job.heard) CHECK_FALSE(one.failure);
    job.say(2, Kind::push, {1});
    CHECK(job.stored(1, 1) == Floats{-1});
  }
  SECTION("others wait for it, and are told where they differ") {
    job.set(2, rate(1));
    job.set(2, {"adam"});
    CHECK(job.heard.size() == 1);
    job.set(1, rate(2));
    REQUIRE(job.heard.size() == 3);
    CHECK_FALSE(job.heard[1].failure);
    REQUIRE(job.heard[2].failure);
    CHECK(job.heard[2].failure->code == ErrorCode::mismatch);
    CHECK_THAT(job.heard[2].failure->text,
               Contains("worker 2 passed 'adam', but worker 1 passed 'sgd'") &&
                   Contains("worker 1's holds"));
  }
  SECTION("the next one takes its place with what waits") {
    job.set(2, rate(1));
    job.set(2, rate(3));
    job.table().lose(1, loss_of(1));
    REQUIRE(job.heard.size() == 2);
    CHECK_FALSE(job.heard[1].failure);
    job.say(2, Kind::push, {1});
    CHECK(job.stored(1, 2) == Floats{-2});
  }
  SECTION("a leader that is behind is led by what worker 0 has set") {
    job.table().lose(1, loss_of(1));
    job.set(2, rate(5));
    REQUIRE(job.heard.size() == 1);
    REQUIRE(job.heard[0].failure);
    CHECK_THAT(job.heard[0].failure->text, Contains("than worker 0"));
    job.set(2, rate(5));
    CHECK_FALSE(job.heard[1].failure);
  }
  SECTION("states are worker 0's, and are not loaded") {
    job.say(1, Kind::push, {1});
    job.heard.clear();
    job.table().receive(1, LoadStates{.sequence = job.next(1)});
    REQUIRE(job.heard.size() == 1);
    CHECK(job.heard[0].failure == loss_of(0));
    CHECK(job.stored(1, 1) == Floats{0});
  }
}

TEST_CASE("asynchronous settings are answered in their order, however late a worker comes") {
  TableJob job(2, true);
  for (int i = 0; i < 5; ++i) job.set(0, {"sgd", {{"learning_rate", 0.5 + i}}});
  for (int i = 0; i < 5; ++i) job.set(1, {"sgd", {{"learning_rate", 0.5 + i}}});
  job.set(1, {"sgd"});
  REQUIRE(job.heard.size() == 10);
  for (const Heard& one : job.heard) CHECK_FALSE(one.failure);
  job.set(0, {"sgd"});
  CHECK(job.heard.size() == 12);
}

TEST_CASE("of asynchronous settings the last 1024 are kept for a worker that is far behind") {
  TableJob job(2, true);
  const auto sizes = [&] {
    ArchiveWriter archive;
    job.table().save(archive);
    return archive.take().size();
  };
  for (int i = 0; i < 1024; ++i) job.set(0, rate(1 + i));
  const std::size_t before = sizes();
  for (int i = 1024; i < 1500; ++i) job.set(0, rate(1 + i));
  CHECK(sizes() == before);
  job.heard.clear();
  for (int i = 0; i < 476; ++i) job.set(1, {"adam"});
  job.set(1, rate(477));
  job.set(1, {"adam"});
  REQUIRE(job.heard.size() == 478);
  for (int i = 0; i < 477; ++i) CHECK_FALSE(job.heard[static_cast<std::size_t>(i)].failure);
  CHECK(job.heard.back().failure);
}

TEST_CASE("lamb updates a value that is whole") {
  TableJob job(1);
  job.set(0, {"lamb", {{"learning_rate", 1}}});
  job.init({3, 4});
  job.say(0, Kind::push, {1, 1});
  const Floats values = job.stored(2);
  // Both elements go by the same step, whose norm is that of the value: 5.
  CHECK(values[0] == Approx(3 - 5 / std::sqrt(2.0)).epsilon(1e-5));
  CHECK(values[1] == Approx(4 - 5 / std::sqrt(2.0)).epsilon(1e-5));
}
