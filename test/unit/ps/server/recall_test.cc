// A server's side of calls that have reached a worker's time limit: which ones are held, released
// and given up, and which answers late workers get.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

using Step = Recall::Step;

const PieceName piece{"w", 0, 1};
const Optimizer sgd{"sgd", {{"learning_rate", 1}}};
const Optimizer faster{"sgd", {{"learning_rate", 2}}};
const Failure too_late{ErrorCode::timeout, "it was given up on worker 1", {0}};

/// The answer to the worker about missing workers.
std::optional<Failure> recall(TableJob& job, int worker, std::uint64_t request, Step step,
                              const std::optional<PieceName>& of = piece) {
  const std::uint64_t sequence = job.next(worker);
  job.table().receive(
      worker, Recall{.sequence = sequence,
                     .request = request,
                     .piece = of,
                     .step = step,
                     .failure = step == Step::give_up ? std::optional(too_late) : std::nullopt});
  const Heard answer = job.heard.back();
  REQUIRE((answer.worker == worker && answer.sequence == sequence));
  job.heard.pop_back();
  return answer.failure;
}

void give_up(TableJob& job, int worker, std::uint64_t request,
             const std::optional<PieceName>& of = piece) {
  recall(job, worker, request, Step::hold, of);
  recall(job, worker, request, Step::give_up, of);
}

/// The last answer of this worker.
std::optional<Failure> last_of(const TableJob& job, int worker) {
  std::optional<Failure> failure;
  for (const Heard& one : job.heard) {
    if (one.worker == worker) failure = one.failure;
  }
  return failure;
}

void lose(TableJob& job, int worker) {
  job.table().lose(worker, {ErrorCode::peer_lost, "it is lost", {worker}});
}

}  // namespace

TEST_CASE("a round that is given up fails for all, and the retries are the next round of all") {
  for (const Kind kind : {Kind::push, Kind::pushpull, Kind::broadcast}) {
    TableJob job(3);
    job.init({0});
    job.say(2, kind, {1});
    give_up(job, 1, job.say(1, kind, {1}));
    CHECK(job.heard.size() == 2);
    job.say(0, kind, {1});
    CHECK(job.common_failure(ErrorCode::timeout) == too_late.text);
    job.heard.clear();
    for (const int worker : {1, 2}) job.say(worker, kind, {20});
    CHECK(job.heard.empty());
    job.say(0, kind, {10});
    CHECK(job.stored(1) == Floats{kind == Kind::broadcast ? 10.0F : 50.0F});
  }
}

TEST_CASE("an init that is given up stores nothing, and may be made again") {
  TableJob job(2);
  give_up(job, 1, job.say(1, Kind::init, {1}));
  job.say(0, Kind::init, {1});
  job.common_failure(ErrorCode::timeout);
  job.init({7});
  CHECK(job.stored(1) == Floats{7});
}

TEST_CASE("a worker that comes late hears of each round that was given up without it") {
  TableJob job(2);
  job.init({0});
  for (int i = 0; i < 3; ++i) give_up(job, 1, job.say(1, Kind::push, {1}));
  job.say(1, Kind::push, {10});
  for (int i = 0; i < 3; ++i) {
    job.say(0, Kind::push, {1});
    CHECK(last_of(job, 0) == too_late);
  }
  CHECK(job.stored(1) == Floats{0});
  job.say(0, Kind::push, {20});
  CHECK(job.stored(1) == Floats{30});
}

TEST_CASE("of several rounds ahead, only the round that is given up fails") {
  TableJob job(2);
  job.init({0});
  job.say(1, Kind::push, {1});
  const std::uint64_t second = job.say(1, Kind::push, {2});
  job.say(1, Kind::push, {3});
  CHECK(recall(job, 1, second, Step::hold)->ranks == std::vector{0});
  recall(job, 1, second, Step::give_up);
  CHECK(job.heard.empty());
  for (const float more : {10.0F, 20.0F, 30.0F}) {
    job.say(0, Kind::push, {more});
    CHECK(last_of(job, 0).has_value() == (more == 20.0F));
  }
  CHECK(std::ranges::count_if(job.heard,
                              [](const Heard& one) { return one.failure == too_late; }) == 2);
  CHECK(job.stored(1) == Floats{33});
}

TEST_CASE("a held contribution is not executed until its worker releases it") {
  TableJob job(2);
  job.init({0});
  const std::uint64_t pushed = job.say(1, Kind::push, {1});
  CHECK(recall(job, 1, pushed, Step::hold) ==
        Failure{ErrorCode::timeout, "worker 0 has not made its push of key 'w'", {0}});
  job.say(0, Kind::push, {2});
  CHECK(job.heard.empty());
  CHECK_FALSE(recall(job, 1, pushed, Step::hold));
  recall(job, 1, pushed, Step::release);
  CHECK(job.heard.size() == 2);
  CHECK(job.stored(1) == Floats{3});
}

TEST_CASE("of two workers that hold a round each may give it up, and both must release it") {
  TableJob job(3);
  job.init({0});
  const std::uint64_t first = job.say(1, Kind::push, {1});
  const std::uint64_t second = job.say(2, Kind::push, {1});
  recall(job, 1, first, Step::hold);
  recall(job, 2, second, Step::hold);
  job.say(0, Kind::push, {1});
  recall(job, 1, first, Step::release);
  CHECK(job.heard.empty());
  SECTION("both release it") {
    recall(job, 2, second, Step::release);
    CHECK(job.stored(1) == Floats{3});
  }
  SECTION("one gives it up") {
    recall(job, 2, second, Step::give_up);
    job.common_failure(ErrorCode::timeout);
    // The other's came too late, and changes nothing.
    recall(job, 1, first, Step::give_up);
    for (int worker = 0; worker < 3; ++worker) job.say(worker, Kind::push, {5});
    CHECK(job.stored(1) == Floats{15});
  }
}

TEST_CASE("a contribution that was executed before it is recalled stands") {
  TableJob job(2);
  job.init({0});
  const std::uint64_t pushed = job.say(1, Kind::push, {1});
  job.say(0, Kind::push, {1});
  job.heard.clear();
  CHECK_FALSE(recall(job, 1, pushed, Step::hold));
  recall(job, 1, pushed, Step::give_up);
  CHECK_FALSE(recall(job, 1, pushed, Step::give_up, PieceName{"none", 0, 1}));
  CHECK(job.heard.empty());
  CHECK(job.stored(1) == Floats{2});
}

TEST_CASE("a pull behind a push that was given up gets the value as it is") {
  TableJob job(2);
  job.init({4});
  const std::uint64_t pushed = job.say(1, Kind::push, {1});
  job.pull(1, 1);
  CHECK(job.heard.empty());
  give_up(job, 1, pushed);
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[0].failure == too_late);
  CHECK(job.heard[1].values == Floats{4});
}

TEST_CASE("a worker that leaves or is lost takes its tombstones along") {
  TableJob job(3, true);
  job.init({0});
  give_up(job, 1, job.say(1, Kind::broadcast, {1}));
  job.table().receive(2, Goodbye{});
  job.heard.clear();
  job.say(0, Kind::broadcast, {1});
  CHECK(last_of(job, 0) == too_late);
  // From now on a round needs the workers that are there, and fails for the one that is not.
  job.say(0, Kind::broadcast, {1});
  CHECK(last_of(job, 0)->code == ErrorCode::aborted);
}

TEST_CASE("a contribution that a lost worker held fails as that worker is lost") {
  TableJob job(2, true);
  job.init({0});
  const std::uint64_t sent = job.say(1, Kind::broadcast, {1});
  recall(job, 1, sent, Step::hold);
  job.say(0, Kind::broadcast, {1});
  lose(job, 1);
  CHECK(last_of(job, 0)->text == "it is lost");
  CHECK(job.stored(1) == Floats{0});
}

TEST_CASE(
    "an asynchronous push that waits for slower workers is given up alone, and counts as none") {
  TableJob job(2, true, 1);
  job.init({0});
  for (int worker : {0, 1}) job.set(worker, sgd);
  job.say(1, Kind::push, {1});
  const std::uint64_t ahead = job.say(1, Kind::push, {1});
  CHECK(recall(job, 1, ahead, Step::hold)->ranks == std::vector{0});
  job.say(0, Kind::push, {1});
  CHECK(job.stored(1) == Floats{-2});
  recall(job, 1, ahead, Step::give_up);
  CHECK(last_of(job, 1) == too_late);
  job.say(1, Kind::push, {1});
  CHECK(job.stored(1) == Floats{-3});
}

TEST_CASE("a setting that is given up fails for all, and counts for nobody") {
  TableJob job(3);
  job.init({0});
  job.set(2, sgd);
  give_up(job, 1, job.set(1, sgd), std::nullopt);
  CHECK(job.heard.size() == 2);
  job.set(0, sgd);
  CHECK(job.common_failure(ErrorCode::timeout) == too_late.text);
  CHECK_FALSE(job.table().optimizer());
  for (const int worker : {1, 2, 0}) job.set(worker, faster);
  CHECK(job.table().optimizer() == faster);
  CHECK_FALSE(last_of(job, 0));
}

TEST_CASE("a setting that is held waits for its worker, and one that was applied stands") {
  TableJob job(2);
  const std::uint64_t set = job.set(1, sgd);
  CHECK(recall(job, 1, set, Step::hold, std::nullopt)->text ==
        "worker 0 has not made its call of set_optimizer");
  job.set(0, sgd);
  CHECK_FALSE(job.table().optimizer());
  recall(job, 1, set, Step::release, std::nullopt);
  CHECK(job.table().optimizer() == sgd);
  job.heard.clear();
  recall(job, 1, set, Step::give_up, std::nullopt);
  CHECK(job.heard.empty());
}

TEST_CASE("a setting waits while a worker holds a round that was made before it") {
  TableJob job(2);
  job.init({0});
  const std::uint64_t pushed = job.say(1, Kind::push, {1});
  job.set(1, sgd);
  recall(job, 1, pushed, Step::hold);
  job.say(0, Kind::push, {2});
  job.set(0, sgd);
  CHECK_FALSE(job.table().optimizer());
  SECTION("the worker releases it") {
    recall(job, 1, pushed, Step::release);
    CHECK(job.stored(1) == Floats{3});
  }
  SECTION("the worker gives it up") {
    recall(job, 1, pushed, Step::give_up);
    CHECK(job.stored(1) == Floats{0});
  }
  CHECK(job.table().optimizer() == sgd);
}

TEST_CASE("a setting waits no longer when another worker withdraws the round that was held") {
  TableJob job(2);
  job.init({0});
  job.set(0, sgd);
  recall(job, 0, job.say(0, Kind::push, {1}), Step::hold);
  job.set(1, sgd);
  CHECK_FALSE(job.table().optimizer());
  job.table().receive(1, Withdrawal{job.next(1), piece, Kind::push, too_late});
  CHECK(job.table().optimizer() == sgd);
  CHECK(job.heard.size() == 4);
}

TEST_CASE("an asynchronous setting that is given up is the same one when it is made again") {
  TableJob job(2, true);
  give_up(job, 1, job.set(1, sgd), std::nullopt);
  CHECK(last_of(job, 1) == too_late);
  job.heard.clear();
  job.set(0, sgd);
  job.set(1, sgd);
  job.set(0, faster);
  job.set(1, faster);
  REQUIRE(job.heard.size() == 4);
  for (const Heard& one : job.heard) CHECK_FALSE(one.failure);
}

TEST_CASE("an asynchronous setting that is held is not answered until its worker releases it") {
  TableJob job(2, true);
  const std::uint64_t set = job.set(1, sgd);
  CHECK(recall(job, 1, set, Step::hold, std::nullopt)->ranks == std::vector{0});
  job.set(0, sgd);
  CHECK(job.heard.size() == 1);
  recall(job, 1, set, Step::release, std::nullopt);
  CHECK(job.heard.size() == 2);
}

TEST_CASE("held parts, given up rounds and tombstones are part of the state") {
  TableJob job(3);
  job.init({0});
  give_up(job, 1, job.say(1, Kind::push, {1}));
  job.set(1, sgd);
  give_up(job, 2, job.set(2, sgd), std::nullopt);
  job.say(2, Kind::push, {1});
  const std::uint64_t second = job.say(2, Kind::push, {20});
  const std::uint64_t held = job.say(1, Kind::push, {10});
  recall(job, 1, held, Step::hold);
  ArchiveWriter to;
  job.table().save(to);
  const net::Bytes state = to.take();

  TableJob other(3);
  ArchiveReader from(state);
  other.table().load(from);
  from.finish();
  other.continue_numbers(job);
  CHECK(recall(other, 2, second, Step::hold)->ranks == std::vector{0});
  recall(other, 2, second, Step::release);
  other.heard.clear();
  other.say(0, Kind::push, {1});
  CHECK(last_of(other, 0) == too_late);
  other.set(0, sgd);
  CHECK(last_of(other, 0) == too_late);
  other.say(0, Kind::push, {30});
  recall(other, 1, held, Step::release);
  CHECK(other.stored(1) == Floats{60});
  ArchiveWriter again;
  job.table().save(again);
  const net::Bytes same = again.take();
  CHECK(same == state);
}
