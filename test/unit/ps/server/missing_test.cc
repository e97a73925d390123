// Whom a server names to a worker that asks whom it waits for.
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

const Optimizer plain_sgd{"sgd", {{"learning_rate", 1}}};
const PieceName only_piece{"w", 0, 1};

/// The answer that this worker gets when it asks about the piece or about settings.
std::optional<Failure> missing(TableJob& job, int worker, const std::optional<PieceName>& of) {
  job.heard.clear();
  const std::uint64_t sequence = job.next(worker);
  job.table().receive(worker, FindMissing{sequence, of});
  REQUIRE(job.heard.size() == 1);
  CHECK(job.heard[0].worker == worker);
  CHECK(job.heard[0].sequence == sequence);
  return job.heard[0].failure;
}

}  // namespace

TEST_CASE("workers that have not brought their part in a round are named") {
  TableJob job(4);
  job.init({0});
  job.say(0, Kind::push, {1});
  job.pull(0, 1);
  CHECK(missing(job, 0, only_piece) ==
        Failure{
            ErrorCode::timeout, "workers 1, 2, 3 have not made their push of key 'w'", {1, 2, 3}});
  job.say(3, Kind::push, {1});
  job.say(1, Kind::push, {1});
  CHECK(missing(job, 3, only_piece) ==
        Failure{ErrorCode::timeout, "worker 2 has not made its push of key 'w'", {2}});
  CHECK_FALSE(missing(job, 2, only_piece));
  job.say(2, Kind::push, {1});
  CHECK_FALSE(missing(job, 0, only_piece));
  CHECK(job.stored(1) == Floats{4});
}

TEST_CASE("workers that have not made a setting are named") {
  TableJob job(3);
  job.set(0, plain_sgd);
  job.set(1, plain_sgd);
  CHECK(missing(job, 0, std::nullopt) ==
        Failure{ErrorCode::timeout, "worker 2 has not made its call of set_optimizer", {2}});
  CHECK_FALSE(missing(job, 2, std::nullopt));
  job.set(2, plain_sgd);
  CHECK_FALSE(missing(job, 0, std::nullopt));
}

TEST_CASE("an asynchronous setting waits for the lowest worker that is there") {
  TableJob job(3, true);
  job.set(2, plain_sgd);
  CHECK(missing(job, 2, std::nullopt)->ranks == std::vector{0});
  job.table().lose(0, {ErrorCode::peer_lost, "worker 0 is lost", {0}});
  CHECK(missing(job, 2, std::nullopt)->ranks == std::vector{1});
}

TEST_CASE("an asynchronous worker that is held waits for those that are too far behind") {
  TableJob job(3, true, 1);
  job.init({0});
  for (int worker = 0; worker < 3; ++worker) job.set(worker, plain_sgd);
  job.say(0, Kind::push, {1});
  CHECK_FALSE(missing(job, 0, only_piece));
  job.say(0, Kind::push, {1});
  CHECK(missing(job, 0, only_piece)->ranks == std::vector{1, 2});
  job.say(1, Kind::broadcast, {0}, {.root = 1});
  CHECK(missing(job, 0, only_piece)->ranks == std::vector{2});
  CHECK(missing(job, 1, only_piece)->ranks == std::vector{0, 2});
  job.table().lose(2, {ErrorCode::peer_lost, "worker 2 is lost", {2}});
  CHECK_FALSE(missing(job, 0, only_piece));
  job.say(0, Kind::push, {1});
  CHECK(missing(job, 0, only_piece)->ranks == std::vector{1});
}

TEST_CASE("a question about a missing piece is answered, makes nothing and needs its number") {
  TableJob job(2);
  const std::optional<PieceName> none(PieceName{"none", 1, 2});
  CHECK_FALSE(missing(job, 0, none));
  CHECK_FALSE(missing(job, 0, std::nullopt));
  CHECK(job.table().waiting_requests(0) == 0);
  // The key may still be cut in another way.
  job.table().receive(0, Pull{job.next(0), {"none", 0, 1}, DType::f32, {1}});
  CHECK(job.heard.back().failure->code == ErrorCode::invalid_argument);
  job.heard.clear();
  job.table().receive(0, FindMissing{1, {}});
  CHECK(job.heard.empty());
  job.table().receive(0, FindMissing{9, {}});
  CHECK(job.refusal(0).find("one between them is missing") != std::string::npos);
}
