// Requests that wait at a server for other workers.
#include <catch2/catch.hpp>

#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;

TEST_CASE("contributions count as waiting until all workers have brought theirs") {
  TableJob job(3);
  job.init({0, 0});
  job.say(0, Kind::push, {1, 2});
  job.say(0, Kind::push, {3, 4});
  job.say(1, Kind::push, {1, 2});
  CHECK(job.table().waiting_bytes(0) == 16);
  CHECK(job.table().waiting_bytes(1) == 8);
  CHECK(job.table().waiting_bytes(2) == 0);
  job.say(2, Kind::push, {1, 2});
  CHECK(job.table().waiting_bytes(0) == 8);
  CHECK(job.table().waiting_bytes(1) == 0);
}

TEST_CASE("contributions in shared memory do not count") {
  TableJob job;
  job.init({0, 0});
  job.say(0, Kind::push, {1, 2}, {.room = Room{0, 64, 8}});
  CHECK(job.table().waiting_bytes(0) == 0);
  job.say(1, Kind::push, {1, 2});
  CHECK(job.table().waiting_bytes(0) == 0);
}

TEST_CASE("a server waits for the worker whose contribution or setting others need") {
  TableJob job;
  job.init({0});
  CHECK_FALSE(job.table().waits_for(0));
  CHECK_FALSE(job.table().waits_for(1));
  job.say(0, Kind::push, {1});
  CHECK_FALSE(job.table().waits_for(0));
  CHECK(job.table().waits_for(1));
  job.say(1, Kind::push, {1});
  CHECK_FALSE(job.table().waits_for(1));
  job.set(1, {"sgd", {{"learning_rate", 1}}});
  CHECK(job.table().waits_for(0));
}
