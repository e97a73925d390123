// How far asynchronous workers may run ahead of one another.
#include <catch2/catch.hpp>

#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

/// A job with a value of 0. Each push subtracts its gradient from the value.
std::unique_ptr<TableJob> job_with(int workers, int staleness) {
  auto job = std::make_unique<TableJob>(workers, true, staleness);
  job->init({0});
  for (int worker = 0; worker < workers; ++worker)
    job->set(worker, {"sgd", {{"learning_rate", 1}}});
  job->heard.clear();
  return job;
}

}  // namespace

TEST_CASE("a worker is held where it would be ahead too far, and goes on with the slowest") {
  const auto job = job_with(2, 2);
  for (int i = 0; i < 4; ++i) job->say(0, Kind::push, {1});
  CHECK(job->heard.size() == 2);
  job->say(1, Kind::push, {1});
  CHECK(job->heard.size() == 4);  // its own, and one more of worker 0
  job->say(1, Kind::push, {1});
  CHECK(job->heard.size() == 6);
  CHECK(job->stored(1) == Floats{-6});
}

TEST_CASE("without a bound nobody is held") {
  const auto job = job_with(2, unbounded);
  for (int i = 0; i < 100; ++i) job->say(0, Kind::push, {1});
  CHECK(job->heard.size() == 100);
}

TEST_CASE("a pull of a held worker waits with the push, pulls of others do not") {
  const auto job = job_with(2, 1);
  job->say(0, Kind::push, {1});
  job->say(0, Kind::push, {1});
  job->pull(0, 1);
  CHECK(job->heard.size() == 1);
  job->pull(1, 1);
  REQUIRE(job->heard.size() == 2);
  CHECK(job->heard[1].values == Floats{-1});
  job->say(1, Kind::push, {1});
  CHECK(job->heard.size() == 5);
}

TEST_CASE("a worker that has left, is lost, or waits for the others holds nobody") {
  const auto job = job_with(4, 1);
  for (int i = 0; i < 3; ++i) job->say(0, Kind::push, {1});
  CHECK(job->heard.size() == 1);
  job->table().receive(1, Goodbye{});
  job->table().lose(2, {ErrorCode::peer_lost, "worker 2 is lost", {2}});
  CHECK(job->heard.size() == 1);
  job->say(3, Kind::broadcast, {0}, {.root = 3});
  // Worker 3's broadcast has failed for the workers that are gone, and it may push again.
  REQUIRE(job->heard.size() >= 2);
  job->say(3, Kind::push, {1});
  job->say(3, Kind::push, {1});
  CHECK(job->stored(1) == Floats{-5});
}

TEST_CASE("a push that is held makes no round with others' broadcasts") {
  const auto job = job_with(2, 1);
  job->say(0, Kind::push, {1});
  job->say(0, Kind::push, {1});
  job->say(0, Kind::broadcast, {7}, {.root = 0});
  job->say(1, Kind::broadcast, {0}, {.root = 0});
  // Worker 1 waits for worker 0, so it holds it no more.
  CHECK(job->heard.size() == 4);
  CHECK(job->stored(1) == Floats{7});
}

TEST_CASE("a push that was refused counts, and holds nobody afterwards") {
  const auto job = job_with(2, 1);
  job->say(1, Kind::push, {1, 1});
  REQUIRE(job->heard.size() == 1);
  CHECK(job->heard[0].failure->code == ErrorCode::invalid_argument);
  for (int i = 0; i < 2; ++i) job->say(0, Kind::push, {1});
  CHECK(job->heard.size() == 3);
  CHECK(job->stored(1) == Floats{-2});
}
