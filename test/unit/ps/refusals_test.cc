// What a server cannot do as it was told: a worker's mistakes, and the machine's limits.
#include <catch2/catch.hpp>

#include "unit/ps/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

TEST_CASE(
    "a worker that breaks the protocol is told, the others lose it, and it is heard no more") {
  TableJob job(3);
  job.init({0});
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1});
  job.next(2);
  job.say(2, Kind::push, {1});
  const std::string why = job.refusal(2);
  CHECK_THAT(why, Contains("worker 2 is heard no more") && Contains("is missing"));
  REQUIRE(job.heard.size() == 3);
  for (const Heard& one : job.heard) {
    CHECK(one.failure->code == ErrorCode::internal);
    CHECK(one.failure->text == why);
    CHECK(one.failure->ranks == std::vector{2});
  }
  job.heard.clear();
  job.say(2, Kind::push, {1});
  job.next(2);
  job.pull(2, 1);
  CHECK(job.heard.empty());
  job.say(0, Kind::push, {1});
  REQUIRE(job.heard.size() == 1);
  CHECK(job.heard[0].failure->text == why);
  CHECK(job.stored(1) == Floats{0});
}

TEST_CASE("a worker that left and says more is refused once") {
  TableJob job;
  job.table().receive(1, Goodbye{});
  for (int i = 0; i < 2; ++i) {
    job.next(1);
    job.pull(1, 1);
  }
  job.refusal(1);
  CHECK(job.heard.size() == 1);
}

TEST_CASE("what was refused is not among the requests that wait") {
  TableJob job(1);
  job.next(0);
  job.pull(0, 1);
  job.refusal(0);
  CHECK(job.table().waiting_requests(0) == 0);
}
