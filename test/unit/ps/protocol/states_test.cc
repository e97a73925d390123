// The states of optimizers, on their way out of the servers and into them.
#include "ps/protocol/states.h"

#include <catch2/catch.hpp>

#include "optimizer/updater.h"
#include "unit/errors.h"
#include "unit/ps/server/table_job.h"

using namespace tutti;
using namespace tutti::ps;
using Catch::Contains;
using optimizer::Saved;
using optimizer::State;

namespace {

std::vector<std::byte> bytes_of(const Floats& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

const Optimizer sgd_with_momentum{"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}};

/// The table's answer to the last request of worker 0.
Saved answered(TableJob& job) {
  REQUIRE_FALSE(job.heard.empty());
  REQUIRE_FALSE(job.heard.back().failure);
  return unpacked(job.heard.back().bytes);
}

Saved state_of(TableJob& job) {
  job.table().receive(0, PullState{job.next(0), {"w", 0, 1}});
  return answered(job);
}

void bring(TableJob& job, const Key& key, State state) {
  const std::vector<std::byte> bytes = packed({.rule = "", .states = {{key, std::move(state)}}});
  job.table().receive(0, SetState{job.next(0), {key, 0, 1}, bytes});
}

void load(TableJob& job, int worker, const std::string& rule = "sgd",
          const std::optional<Optimizer>& optimizer = {}) {
  job.table().receive(
      worker, LoadStates{.sequence = job.next(worker), .rule = rule, .optimizer = optimizer});
}

}  // namespace

TEST_CASE("a state that is cut into pieces is joined again as it was, in any order of them") {
  State whole{.dtype = DType::f32, .updates = 3, .master = bytes_of({1, 2, 3, 4, 5})};
  whole.slots = {bytes_of({6, 7, 8, 9, 10}), bytes_of({0, 1, 0, 1, 0})};
  for (std::uint32_t pieces = 1; pieces <= 7; ++pieces) {
    std::vector<StateOfPiece> parts;
    for (std::uint32_t i = pieces; i-- > 0;) {
      parts.push_back(
          {i, pieces, packed({.rule = "lamb", .states = {{"w", part_of(whole, i, pieces)}}})});
    }
    const Saved saved = joined(parts);
    CHECK(saved.rule == "lamb");
    const State& state = saved.states.at("w");
    CHECK(state.updates == 3);
    CHECK(state.master == whole.master);
    CHECK(state.slots == whole.slots);
  }
}

TEST_CASE(
    "a value that was never updated has no state, and the optimizer is found among the answers") {
  const State fresh{.dtype = DType::f32, .updates = 0, .slots = {bytes_of({0})}};
  const Saved saved = joined(
      std::vector<StateOfPiece>{{0, 1, {}},
                                {0, 1, packed({.rule = "sgd", .optimizer = sgd_with_momentum})},
                                {0, 1, packed({.rule = "sgd", .states = {{3, fresh}}})}});
  CHECK(saved.states.empty());
  CHECK(saved.optimizer == sgd_with_momentum);
}

TEST_CASE("a piece that was not updated with a new momentum yet has one of zeros") {
  std::vector<StateOfPiece> answers;
  for (const std::uint32_t index : {0U, 1U}) {
    std::vector<std::byte> heard;
    Table table({.workers = 1, .asynchronous = true, .send = [&](int, const Answer& answer) {
                   REQUIRE_FALSE(answer.failure);
                   heard.assign(answer.data.begin(), answer.data.end());
                 }});
    std::uint64_t sequence = 0;
    const PieceName piece{"w", index, 2};
    const auto say = [&](Kind kind) {
      const Floats values{1, 2};
      Contribution said{.sequence = ++sequence, .piece = piece, .kind = kind, .shape = {4}};
      said.data = std::as_bytes(std::span(values));
      table.receive(0, said);
    };
    say(Kind::init);
    table.receive(0, SetOptimizer{++sequence, {"sgd", {{"learning_rate", 1}}}});
    say(Kind::push);
    table.receive(0, SetOptimizer{++sequence, sgd_with_momentum});
    if (index == 0) say(Kind::push);
    table.receive(0, PullState{++sequence, piece});
    answers.push_back({index, 2, heard});
  }
  const State state = joined(answers).states.at("w");
  CHECK(state.updates == 2);
  REQUIRE(state.slots.size() == 1);
  CHECK(state.slots[0] == bytes_of({-1, -2, 0, 0}));
}

TEST_CASE("states of pieces that make no whole are refused with their key") {
  const auto answer = [](std::uint32_t piece, State state) {
    return StateOfPiece{piece, 2, packed({.rule = "sgd", .states = {{"w", std::move(state)}}})};
  };
  const State with{.dtype = DType::f32, .updates = 1, .slots = {bytes_of({1})}};
  const State without{.dtype = DType::f32, .updates = 2};
  const auto refusal = [](const std::vector<StateOfPiece>& answers) {
    return text_of(ErrorCode::mismatch, [&] { joined(answers); });
  };
  CHECK_THAT(refusal({answer(0, with), answer(1, without)}),
             Contains("key 'w' has no whole state: the optimizer was changed"));
  for (const std::uint32_t piece : {0U, 1U}) {
    CHECK_THAT(refusal({answer(piece, with), {1 - piece, 2, {}}}),
               Contains("key 'w' has no whole state: some of its pieces alone have a value"));
  }
}

TEST_CASE("a state follows the worker's own pushes") {
  TableJob job;
  job.init({0});
  job.set(0, sgd_with_momentum);
  job.set(1, sgd_with_momentum);
  job.say(0, Kind::push, {1});
  job.heard.clear();
  job.table().receive(0, PullState{job.next(0), {"w", 0, 1}});
  CHECK(job.heard.empty());
  job.say(1, Kind::push, {2});
  REQUIRE(job.heard.size() == 3);
  const State state = answered(job).states.at("w");
  CHECK(state.updates == 1);
  CHECK(state.slots.at(0) == bytes_of({-3}));
}

TEST_CASE("without an optimizer there are no states") {
  TableJob job(1);
  job.init({0});
  job.heard.clear();
  job.table().receive(0, PullState{job.next(0), {"w", 0, 1}});
  job.table().receive(0, PullOptimizer{job.next(0)});
  REQUIRE(job.heard.size() == 2);
  for (const Heard& one : job.heard) {
    REQUIRE(one.failure);
    CHECK_THAT(one.failure->text, Contains("the store has no optimizer"));
  }
}

TEST_CASE("loaded states count once all workers have loaded, and replace all others") {
  TableJob job;
  job.init({0});
  job.set(0, sgd_with_momentum);
  job.set(1, sgd_with_momentum);
  job.say(0, Kind::push, {1});
  job.say(1, Kind::push, {1});
  bring(job, "w", {.dtype = DType::f32, .updates = 9, .slots = {bytes_of({8})}});
  load(job, 0);
  CHECK(state_of(job).states.at("w").updates == 1);
  load(job, 1);
  CHECK(state_of(job).states.at("w").updates == 9);
  job.say(0, Kind::push, {0});
  job.say(1, Kind::push, {0});
  CHECK(job.stored(1) == Floats{-2 + 4});  // half of the momentum
  load(job, 0);
  load(job, 1);
  CHECK(state_of(job).states.at("w").updates == 0);
}

TEST_CASE("a load brings its optimizer, or must be for the one that is set") {
  TableJob job(1);
  job.init({0});
  load(job, 0);
  CHECK_THAT(job.common_failure(ErrorCode::invalid_argument), Contains("without the optimizer"));
  job.heard.clear();
  load(job, 0, "sgd", sgd_with_momentum);
  CHECK_FALSE(job.heard.at(0).failure);
  job.heard.clear();
  load(job, 0, "adam");
  CHECK_THAT(job.common_failure(ErrorCode::invalid_argument),
             Contains("states of optimizer 'adam', but the store's optimizer is 'sgd'"));
}

TEST_CASE("all workers are told what keeps worker 0 from loading, and nothing changes") {
  TableJob job;
  job.init({0});
  job.set(0, sgd_with_momentum);
  job.set(1, sgd_with_momentum);
  bring(job, "w", {.dtype = DType::f32, .updates = 9, .slots = {bytes_of({8})}});
  job.heard.clear();
  const Failure missing{ErrorCode::invalid_argument, "states: no such file", {}};
  job.table().receive(0, LoadStates{.sequence = job.next(0), .failure = missing});
  load(job, 1, "");
  CHECK(job.common_failure(ErrorCode::invalid_argument) == missing.text);
  CHECK(state_of(job).states.at("w").updates == 0);
  // The states that were sent then do not count as a part of the next load.
  load(job, 0);
  load(job, 1);
  CHECK(state_of(job).states.at("w").updates == 0);
}

TEST_CASE("a state that no worker brings by the protocol is refused") {
  const std::vector<std::byte> bytes = packed({.rule = "", .states = {{"v", State{}}}});
  const auto is_refused = [](int worker, const Key& key, std::span<const std::byte> data) {
    TableJob job;
    job.table().receive(worker, SetState{job.next(worker), {key, 0, 1}, data});
    job.refusal(worker);
  };
  is_refused(0, "w", bytes);
  is_refused(1, "v", bytes);
  is_refused(0, "v", bytes_of({1, 2}));
}

TEST_CASE("a state that no message has room for is refused with its key, saved or loaded") {
  TableJob job(1);
  // Each of these takes 32 bits: the value, and two averages.
  const std::vector<std::uint16_t> halves(most_elements_bytes / 12);
  Contribution first{.sequence = job.next(0),
                     .piece = {"big", 0, 1},
                     .kind = Kind::init,
                     .dtype = DType::f16,
                     .shape = {static_cast<std::int64_t>(halves.size())}};
  first.data = std::as_bytes(std::span(halves));
  job.table().receive(0, first);
  job.set(0, {"adam", {{"multi_precision", 1}}});
  job.heard.clear();
  job.table().receive(0, PullState{job.next(0), {"big", 0, 1}});
  CHECK_THAT(job.common_failure(ErrorCode::unsupported),
             Contains("save_optimizer_states: the optimizer's state of key 'big' has 268"));

  const auto loaded = [](std::size_t bytes, std::size_t pieces) {
    return objection_to_size("load_optimizer_states", "big", bytes, pieces);
  };
  CHECK_THAT(loaded(2 * net::max_message_bytes, 2)->text,
             Contains("load_optimizer_states: the optimizer's state of key 'big' has 268"));
  CHECK_FALSE(loaded(2 * net::max_message_bytes, 3));
  CHECK_FALSE(loaded(most_elements_bytes - (std::size_t{16} << 10), 1));
}
