// Contributions that a worker gives up before it has sent them.
#include <catch2/catch.hpp>

#include "unit/ps/table_job.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

const Failure withdrawn_late{ErrorCode::timeout, "push of key 'w' was given up", {0}};

void withdraw(TableJob& job, int worker, Kind kind) {
  job.table().receive(worker, Withdrawal{job.next(worker), {"w", 0, 1}, kind, withdrawn_late});
}

}  // namespace

TEST_CASE(
    "a round of which a worker withdraws its part fails for all, and the next is of the next") {
  TableJob job(3);
  job.init({0});
  job.say(0, Kind::push, {1});
  withdraw(job, 1, Kind::push);
  REQUIRE(job.heard.size() == 2);
  job.say(1, Kind::push, {10});
  // The worker that comes late hears the same, and has not come to the next round.
  job.say(2, Kind::push, {1});
  CHECK(job.common_failure(ErrorCode::timeout) == withdrawn_late.text);
  CHECK(job.stored(1) == Floats{0});
  job.say(0, Kind::push, {2});
  job.say(2, Kind::push, {3});
  CHECK(job.stored(1) == Floats{15});
}

TEST_CASE("a part that is withdrawn waits for the worker's earlier rounds") {
  TableJob job(2);
  job.init({0});
  job.say(1, Kind::push, {1});
  withdraw(job, 1, Kind::push);
  job.say(1, Kind::push, {2});
  CHECK(job.heard.empty());
  job.say(0, Kind::push, {10});
  CHECK(job.stored(1) == Floats{11});
  job.say(0, Kind::push, {20});
  REQUIRE(job.heard.back().failure == withdrawn_late);
  job.say(0, Kind::push, {30});
  CHECK(job.stored(1) == Floats{32});
}

TEST_CASE("an asynchronous push that is withdrawn changes nothing, and may be made again") {
  TableJob job(2, true, 1);
  job.init({0});
  for (int worker = 0; worker < 2; ++worker) job.set(worker, {"sgd", {{"learning_rate", 1}}});
  job.say(0, Kind::push, {1});
  job.say(0, Kind::push, {1});
  withdraw(job, 1, Kind::push);
  CHECK(job.heard.back().failure == withdrawn_late);
  CHECK(job.stored(1, 1) == Floats{-1});
  job.say(1, Kind::push, {1});
  CHECK(job.stored(1, 1) == Floats{-3});
}

TEST_CASE("an asynchronous broadcast of which a worker withdraws its part fails for all") {
  TableJob job(2, true);
  job.init({0});
  withdraw(job, 0, Kind::broadcast);
  job.say(1, Kind::broadcast, {7}, {.root = 1});
  CHECK(job.common_failure(ErrorCode::timeout) == withdrawn_late.text);
}
