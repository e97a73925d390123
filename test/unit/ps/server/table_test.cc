#include "ps/server/table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <span>

#include "unit/errors.h"
#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;

TEST_CASE("init stores worker 0's value once all workers have called it") {
  TableJob job;
  job.say(1, Kind::init, {7, 7});
  CHECK(job.heard.empty());
  job.say(0, Kind::init, {1, 2});
  CHECK(job.heard.size() == 2);
  CHECK(job.stored(2) == Floats{1, 2});
}

TEST_CASE("a second init is an error for all, and the value stays") {
  TableJob job;
  job.init({1, 2});
  job.say(0, Kind::init, {3, 4});
  job.say(1, Kind::init, {3, 4});
  CHECK_THAT(job.common_failure(ErrorCode::invalid_argument), Contains("initialised already"));
  CHECK(job.stored(2) == Floats{1, 2});
}

TEST_CASE("broadcast stores the root's value and gives it to the others") {
  TableJob job;
  job.say(0, Kind::broadcast, {0, 0, 0}, {.root = 1});
  job.say(1, Kind::broadcast, {1, 2, 3}, {.root = 1});
  REQUIRE(job.heard.size() == 2);
  CHECK(job.heard[0].values == Floats{1, 2, 3});
  CHECK(job.heard[1].values.empty());
  CHECK(job.stored(3) == Floats{1, 2, 3});
}

TEST_CASE("a push puts the sum of all workers in place of the value") {
  TableJob job;
  job.init({100});
  job.say(0, Kind::push, {1});
  CHECK(job.heard.empty());
  job.say(1, Kind::push, {2});
  CHECK(job.stored(1) == Floats{3});
}

TEST_CASE("two pushes of one worker do not close a round") {
  TableJob job;
  job.init({0});
  job.say(0, Kind::push, {1});
  job.say(0, Kind::push, {10});
  CHECK(job.heard.empty());
  job.say(1, Kind::push, {2});
  CHECK(job.heard.size() == 2);
  job.say(1, Kind::push, {20});
  CHECK(job.stored(1) == Floats{30});
}

TEST_CASE("a pull follows the worker's own last push") {
  TableJob job;
  job.init({0});
  job.say(0, Kind::push, {1});
  job.pull(0, 1);
  CHECK(job.heard.empty());
  job.pull(1, 1);  // has pushed nothing, so it need not wait
  REQUIRE(job.heard.size() == 1);
  CHECK(job.heard[0].values == Floats{0});
  job.say(1, Kind::push, {2});
  REQUIRE(job.heard.size() == 4);
  const auto pulled = std::ranges::find(job.heard, Floats{3}, &Heard::values);
  REQUIRE(pulled != job.heard.end());
  CHECK(pulled->worker == 0);
}

TEST_CASE("a request that comes again does nothing") {
  TableJob job;
  job.init({0});
  const Floats one{1};
  const Contribution push{.sequence = job.next(0),
                          .piece = {"w", 0, 1},
                          .shape = {1},
                          .data = std::as_bytes(std::span(one))};
  for (int i = 0; i < 3; ++i) job.table().receive(0, push);
  job.say(1, Kind::push, {2});
  CHECK(job.heard.size() == 2);
  CHECK(job.stored(1) == Floats{3});
}

TEST_CASE("a request that is missing between two is noticed") {
  TableJob job;
  job.next(0);
  job.pull(0, 1);
  CHECK_THAT(job.refusal(0), Contains("is missing"));
}

TEST_CASE("pushpull of a key without a value only reduces, in any shape") {
  TableJob job;
  for (const Floats& values : {Floats{1, 2}, Floats{5}}) {
    job.heard.clear();
    job.say(0, Kind::pushpull, values);
    job.say(1, Kind::pushpull, values);
    REQUIRE(job.heard.size() == 2);
    CHECK(job.heard[1].values[0] == 2 * values[0]);
  }
  job.heard.clear();
  job.pull(0, 1);
  REQUIRE(job.heard[0].failure);
  CHECK_THAT(job.heard[0].failure->text, Contains("never initialised"));
}

TEST_CASE("push of a key without a value is an error for all") {
  TableJob job;
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1});
  CHECK_THAT(job.common_failure(ErrorCode::invalid_argument),
             Contains("push of key 'w': it was never initialised"));
}

TEST_CASE("tensors unlike the value are refused, and the value stays") {
  TableJob job;
  job.init({1, 2});
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1});
  CHECK_THAT(job.common_failure(ErrorCode::invalid_argument),
             Contains("the tensor is f32 (1), but the value is f32 (2)"));
  job.heard.clear();
  job.pull(1, 3);
  CHECK_THAT(job.heard.at(0).failure->text, Contains("f32 (3), but the value is f32 (2)"));
  CHECK(job.stored(2) == Floats{1, 2});
}

TEST_CASE("workers that disagree are all told what each said, and the value stays") {
  TableJob job(3);
  job.init({1, 2});
  struct Other {
    Kind kind;
    Floats values;
    Contribution like;
    std::string text;
  };
  const Contribution plain{};
  const Other others[] = {
      {Kind::push, {1}, plain, "worker 2 made push (sum) of f32 (1)"},
      {Kind::init, {1, 2}, plain, "worker 2 made init of f32 (2)"},
      {Kind::push, {1, 2}, {.op = ReduceOp::max}, "worker 2 made push (max)"},
      {Kind::push, {1, 2}, {.dtype = DType::i32}, "worker 2 made push (sum) of i32"}};
  for (const Other& other : others) {
    job.heard.clear();
    job.say(0, Kind::push, {1, 2});
    job.say(1, Kind::push, {1, 2});
    job.say(2, other.kind, other.values, other.like);
    const std::string text = job.common_failure(ErrorCode::mismatch);
    CHECK_THAT(text, Contains("key 'w'") && Contains("worker 0, which made push (sum) of f32 (2)"));
    CHECK_THAT(text, Contains(other.text));
    CHECK(job.heard[0].failure->ranks == std::vector<int>{2});
  }
  CHECK(job.stored(2) == Floats{1, 2});
}

TEST_CASE("average, min and max reduce as they do everywhere") {
  TableJob job;
  job.init({0});
  const auto reduced = [&](ReduceOp op) {
    job.say(0, Kind::push, {1}, {.op = op});
    job.say(1, Kind::push, {4}, {.op = op});
    return job.stored(1)[0];
  };
  CHECK(reduced(ReduceOp::average) == 2.5F);
  CHECK(reduced(ReduceOp::min) == 1);
  CHECK(reduced(ReduceOp::max) == 4);
}

TEST_CASE("asynchronous pushes of an average together have the effect of a synchronous one") {
  for (const Kind kind : {Kind::push, Kind::pushpull}) {
    for (const bool asynchronous : {false, true}) {
      TableJob job(2, asynchronous);
      job.init({0});
      for (const int worker : {0, 1}) job.set(worker, {"sgd", {{"learning_rate", 1}}});
      job.say(0, kind, {1}, {.op = ReduceOp::average});
      job.say(1, kind, {4}, {.op = ReduceOp::average});
      CHECK(job.stored(1) == Floats{-2.5F});
    }
  }
}

TEST_CASE("whatever the order of arrival, results have the same bits") {
  const std::string optimizer = GENERATE("", "sgd", "adam");
  INFO("optimizer " << optimizer);
  constexpr int workers = 5;
  std::mt19937 random(3);
  std::vector<Floats> gradients;
  for (int i = 0; i < workers; ++i) {
    Floats& mine = gradients.emplace_back(64);
    for (float& value : mine) {
      value = std::ldexp(static_cast<float>(random()), -20 - static_cast<int>(random() % 30));
    }
  }
  std::optional<Floats> first;
  for (int attempt = 0; attempt < 100; ++attempt) {
    TableJob job(workers);
    job.init(Floats(64));
    if (!optimizer.empty()) {
      for (int worker = 0; worker < workers; ++worker) job.set(worker, {optimizer, {{"wd", 0.1}}});
    }
    // Each worker pushes twice; whose turn it is is drawn.
    std::vector<int> turns(std::size_t{2} * workers);
    for (std::size_t i = 0; i < turns.size(); ++i) turns[i] = static_cast<int>(i % workers);
    std::ranges::shuffle(turns, random);
    for (const int worker : turns) {
      job.say(worker, Kind::push, gradients[static_cast<std::size_t>(worker)]);
    }
    const Floats values = job.stored(64);
    if (!first) first = values;
    REQUIRE(std::ranges::equal(std::as_bytes(std::span(values)), std::as_bytes(std::span(*first))));
  }
}

TEST_CASE("a round that needs a worker which has left or is lost fails, naming it") {
  const bool leaves = GENERATE(true, false);
  TableJob job;
  job.init({1});
  job.say(0, Kind::push, {1});
  if (leaves) {
    job.table().receive(1, Goodbye{});
  } else {
    job.table().lose(1, {ErrorCode::peer_lost, "worker 1 is lost", {1}});
  }
  REQUIRE(job.heard.size() == 1);
  REQUIRE(job.heard[0].failure);
  CHECK(job.heard[0].failure->code == (leaves ? ErrorCode::aborted : ErrorCode::peer_lost));
  CHECK(job.heard[0].failure->ranks == std::vector<int>{1});
  job.say(0, Kind::push, {1});
  CHECK(job.heard.size() == 2);
  CHECK(job.stored(1) == Floats{1});
}

TEST_CASE("messages that a worker sent before it left still count") {
  TableJob job;
  job.init({1});
  job.say(1, Kind::push, {2});
  job.table().receive(1, Goodbye{});
  job.say(0, Kind::push, {1});
  CHECK(job.stored(1) == Floats{3});
}

TEST_CASE(
    "a lost worker's message that comes after its loss stands for no later round of the others") {
  TableJob job(2, true);
  job.say(0, Kind::pushpull, {1});
  job.table().lose(1, {ErrorCode::peer_lost, "worker 1 is lost", {1}});
  REQUIRE(job.heard.size() == 1);
  CHECK(job.heard[0].failure);
  job.say(1, Kind::pushpull, {20});
  job.set(1, {.name = "sgd"});
  job.say(0, Kind::pushpull, {3});
  REQUIRE(job.heard.size() == 2);
  REQUIRE(job.heard[1].failure);
  CHECK(job.heard[1].failure->code == ErrorCode::peer_lost);
}

TEST_CASE("elements that are not as many as the shape says are refused") {
  TableJob job;
  const Floats three{1, 2, 3};
  const Contribution push{
      .sequence = 1, .piece = {"w", 0, 1}, .shape = {2}, .data = std::as_bytes(std::span(three))};
  job.table().receive(0, push);
  CHECK_THAT(job.refusal(0), Contains("12 bytes, but should bring 8"));
}

TEST_CASE("requests of one worker that wait without end are refused") {
  TableJob job;
  job.init({});
  const auto push = [&] { job.say(0, Kind::push, {}); };
  for (std::size_t i = 0; i < most_waiting_requests; ++i) push();
  CHECK(job.table().waiting_requests(0) == most_waiting_requests);
  push();
  CHECK_THAT(job.refusal(0), Contains("of its requests wait here"));
}

namespace {

/// A server whose answers are still on their way.
struct Unsent {
  std::vector<Answer> answers;
  Table table{
      {.workers = 1, .send = [this](int, const Answer& answer) { answers.push_back(answer); }}};
  std::uint64_t sequence = 0;

  void say(Kind kind, const Floats& values) {
    table.receive(0, Contribution{.sequence = ++sequence,
                                  .piece = {"w", 0, 1},
                                  .kind = kind,
                                  .shape = {static_cast<std::int64_t>(values.size())},
                                  .data = std::as_bytes(std::span(values))});
  }
  void pull(std::int64_t count) {
    table.receive(0, Pull{++sequence, {"w", 0, 1}, DType::f32, {count}});
  }
  static Floats values_of(const Answer& answer) {
    Floats values(answer.data.size() / sizeof(float));
    std::memcpy(values.data(), answer.data.data(), answer.data.size());
    return values;
  }
};

}  // namespace

TEST_CASE("an answer that is still on its way keeps its elements when the value changes") {
  Unsent server;
  server.say(Kind::init, {1, 2});
  server.pull(2);
  const Answer pulled = server.answers.back();
  server.table.receive(0, SetOptimizer{++server.sequence, {"sgd", {{"learning_rate", 1}}}});
  server.say(Kind::pushpull, {10, 10});
  const Answer updated = server.answers.back();
  server.say(Kind::pushpull, {10, 10});
  CHECK(Unsent::values_of(pulled) == Floats{1, 2});
  CHECK(Unsent::values_of(updated) == Floats{-9, -8});
  CHECK(Unsent::values_of(server.answers.back()) == Floats{-19, -18});
}

TEST_CASE("a value that no answer shares is updated where it is") {
  Unsent server;
  server.table.receive(0, SetOptimizer{++server.sequence, {"sgd", {{"learning_rate", 1}}}});
  server.say(Kind::init, {1, 2});
  server.say(Kind::pushpull, {10, 10});
  const std::byte* const where = server.answers.back().data.data();
  server.answers.clear();
  server.say(Kind::pushpull, {10, 10});
  CHECK(server.answers.back().data.data() == where);
}

TEST_CASE("a contribution that keeps its elements waits where they are, and lets go of them") {
  TableJob job;
  auto elements = std::make_shared<Floats>(Floats{1, 2});
  const std::weak_ptr<Floats> alive = elements;
  job.table().receive(0, Contribution{.sequence = job.next(0),
                                      .piece = {"w", 0, 1},
                                      .kind = Kind::init,
                                      .shape = {2},
                                      .data = std::as_bytes(std::span(*elements)),
                                      .keeper = elements});
  (*elements)[1] = 3;  // nothing was copied
  elements.reset();
  CHECK_FALSE(alive.expired());
  job.say(1, Kind::init, {0, 0});
  CHECK(alive.expired());
  CHECK(job.stored(2) == Floats{1, 3});
}
