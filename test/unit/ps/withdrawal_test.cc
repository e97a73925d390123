// Contributions that a worker gives up before all of them was sent.
#include <catch2/catch.hpp>

#include "unit/ps/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

namespace {

void withdraw(TableJob& job, int worker, Kind kind) {
  job.table().receive(worker, Withdrawal{job.next(worker), {"w", 0, 1}, kind});
}

}  // namespace

TEST_CASE("a round that a worker gives up fails for all, and the next is of the next calls") {
  TableJob job(3);
  job.init({0});
  job.say(0, Kind::push, {1});
  withdraw(job, 1, Kind::push);
  job.say(1, Kind::push, {10});
  CHECK(job.heard.empty());
  job.say(2, Kind::push, {1});
  CHECK_THAT(job.common_failure(ErrorCode::timeout), Contains("key 'w': workers 1 gave up"));
  CHECK(job.heard[0].failure->ranks == std::vector{1});
  CHECK(job.stored(1) == Floats{0});
  job.say(0, Kind::push, {2});
  job.say(2, Kind::push, {3});
  CHECK(job.stored(1) == Floats{15});
}

TEST_CASE("an asynchronous push that is given up changes nothing and holds nobody") {
  TableJob job(2, true, 1);
  job.init({0});
  for (int worker = 0; worker < 2; ++worker) job.set(worker, {"sgd", {{"learning_rate", 1}}});
  job.say(0, Kind::push, {1});
  job.say(0, Kind::push, {1});
  withdraw(job, 1, Kind::push);
  CHECK(job.stored(1) == Floats{-2});
}

TEST_CASE("an asynchronous broadcast that is given up fails for all") {
  TableJob job(2, true);
  job.init({0});
  withdraw(job, 0, Kind::broadcast);
  job.say(1, Kind::broadcast, {7}, {.root = 1});
  CHECK_THAT(job.common_failure(ErrorCode::timeout), Contains("workers 0 gave up"));
}
