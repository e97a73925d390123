#include "coordinator/participant.h"
#include "coordinator/wire.h"
#include "programs.h"
#include "run_world.h"

using namespace tutti;
using namespace tutti::coordinator;
using namespace tutti::coordinator::test;
using Catch::Matchers::Contains;
using namespace std::chrono_literals;

TEST_CASE("ranks that submit in different orders run the same batches in the same order") {
  const std::vector<Program> programs = {
      {submit(1), submit(2), submit(3), wait(1), wait(2), wait(3), submit(2), submit(1)},
      {submit(3), submit(2), wait(2), submit(2), submit(1), wait(1), submit(1)},
      {submit(2), submit(3), submit(1), wait(2), wait(1), submit(1), submit(2)}};
  for (std::uint64_t seed = 0; seed < 300; ++seed) Run(programs, {}, seed);
}

TEST_CASE("a world of one rank goes the same way") {
  const Run run(
      {{submit(1), wait(1), just(Op::barrier), submit(1), just(Op::join), just(Op::depart)}});
  CHECK(run.observed.order.size() == 3);
}

TEST_CASE("a tensor without elements passes like any other") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Run({{submit(1, 0), submit(2, 5), wait(1), submit(1, 0)},
         {submit(2, 5), submit(1, 0), wait(1), submit(1, 0)}},
        {}, seed);
  }
}

TEST_CASE("different shapes fail with one text on every rank, and the key works afterwards") {
  const Program most = {submit(7, 6), wait(7), submit(7, 6), wait(7)};
  const Program odd = {submit(7, 5), wait(7), submit(7, 6), wait(7)};
  const Run run({most, most, most, odd});
  for (int r = 0; r < 4; ++r) {
    CHECK(run.outcome(r, 0) == "key 7: shapes differ: ranks 0-2 have (6), rank 3 has (5)");
    CHECK(run.outcome(r, 1).empty());
  }
}

TEST_CASE("a mismatch names the field that explains it") {
  const auto outcome = [](Op a, Op b) { return Run({{a}, {b}}).outcome(1, 0); };
  CHECK(outcome(with_dtype(submit(1), DType::f16), submit(1)) ==
        "key 1: dtypes differ: rank 0 has f16, rank 1 has f32");
  CHECK(outcome(broadcast(1, 0), submit(1)) ==
        "key 1: calls differ: rank 0 calls broadcast, rank 1 calls pushpull");
  CHECK(outcome(broadcast(1, 0), broadcast(1, 1)) ==
        "key 1: roots differ: rank 0 names rank 0, rank 1 names rank 1");
  Op average = submit(1);
  average.signature.op = ReduceOp::average;
  CHECK(outcome(average, submit(1)) ==
        "key 1: operations differ: rank 0 asks for average, rank 1 asks for sum");
  Op gpu = submit(1);
  gpu.signature.device = Device::Kind::gpu;
  CHECK(outcome(gpu, submit(1)) == "key 1: device kinds differ: rank 0 has gpu, rank 1 has cpu");
  Op half = submit(1);
  half.signature.wire = WireFormat::fp16;
  CHECK(outcome(half, submit(1)) ==
        "key 1: wire formats differ: rank 0 asks for fp16, rank 1 asks for none");
}

TEST_CASE("a key may change its signature when all ranks do") {
  const Program program = {submit(1, 4),    wait(1), submit(1, 9), wait(1),
                           broadcast(1, 1), wait(1), submit(1, 4)};
  for (std::uint64_t seed = 0; seed < 50; ++seed) Run({program, program}, {}, seed);
}

TEST_CASE("a key whose shape changes again and again needs no growing list of ids") {
  Program program;
  for (std::size_t i = 1; i < 40; ++i) {
    program.push_back(submit(1, i));
    program.push_back(wait(1));
  }
  Run({program, program});
}

TEST_CASE(
    "a tensor that a rank does not submit is reported at doubling intervals, then times out") {
  Program late = {submit(2), wait(2), pause(1801s), submit(1), wait(1), submit(1), wait(1)};
  const Program program = {submit(1), submit(2), wait(2), wait(1), submit(1), wait(1)};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Run run({program, program, late}, {}, seed);
    for (int r = 0; r < 3; ++r) {
      const std::size_t first = r == 2 ? 1 : 0;
      CHECK_THAT(run.outcome(r, first), Contains("key 1: rank 2 did not submit it within 1800 s "
                                                 "(key_timeout, TUTTI_TIMEOUT_SECONDS)"));
      CHECK(run.outcome(r, first + (r == 2 ? 1 : 2)).empty());
    }
    REQUIRE(run.observed.notices.size() == 6);
    CHECK(run.observed.notices[0] == "waiting for rank 2 to submit 1: 30 s so far");
    CHECK(run.observed.notices[1] == "waiting for rank 2 to submit 1: 60 s so far");
    CHECK(run.observed.notices[5] == "waiting for rank 2 to submit 1: 960 s so far");
  }
}

TEST_CASE("many keys that lack the same ranks share one report") {
  const Surroundings quick{.settings = {.key_timeout = 40s}};
  const Run run(
      {{submit(1), submit(2), submit(3), submit(4), submit(5), submit(6), submit(7)}, {}, {}},
      quick);
  REQUIRE(run.observed.notices.size() == 1);
  CHECK(run.observed.notices[0] ==
        "waiting for ranks 1-2 to submit 1, 2, 3, 4, 5 and 2 more: 30 s so far");
}

TEST_CASE("more calls than a report holds travel in several, each within the bound of a message") {
  constexpr std::size_t calls = 2 * max_report_calls + 1;
  Participant participant(1, 2, {});
  for (std::size_t i = 0; i < calls; ++i) {
    std::string key = std::to_string(i);
    key.resize(Key::max_bytes, 'k');
    participant.submit(i + 1, {.key = key, .signature = {.shape = {1}}});
  }
  std::vector<std::size_t> sizes;
  for (const Action& action : participant.take_actions()) {
    const auto& message = std::get<Send>(action).message;
    sizes.push_back(std::get<Report>(message).fresh.size());
    CHECK(encode(message).size() <= max_message_bytes);
  }
  CHECK(sizes == std::vector<std::size_t>{max_report_calls, max_report_calls, 1});
}

TEST_CASE("a barrier is left only when all have come, and is no flush") {
  const std::vector<Program> programs = {
      {submit(1), just(Op::barrier), submit(2), just(Op::barrier), wait(1)},
      {just(Op::barrier), submit(1), just(Op::barrier), submit(2)},
      {just(Op::barrier), submit(1), submit(2), just(Op::barrier)}};
  for (std::uint64_t seed = 0; seed < 100; ++seed) Run(programs, {}, seed);
}

TEST_CASE("a barrier that a rank does not reach times out, and that rank is told when it comes") {
  const Run run({{just(Op::barrier), just(Op::barrier)},
                 {pause(1801s), just(Op::barrier), just(Op::barrier)}});
  const auto& notices = run.observed.notices;
  CHECK(std::count(notices.begin(), notices.end(),
                   "barrier ended: barrier: rank 1 did not come within 1800 s (key_timeout, "
                   "TUTTI_TIMEOUT_SECONDS)") == 2);
}

TEST_CASE("joined ranks contribute nothing and are not counted, until all have joined") {
  const std::vector<Program> programs = {
      {submit(1), wait(1), submit(1), wait(1), submit(1), submit(2), wait(1), just(Op::join),
       Op{.what = Op::submit, .key = 1, .use = 3}, submit(2)},
      {submit(1), wait(1), submit(1), submit(2), wait(1), wait(2), just(Op::join),
       Op{.what = Op::submit, .key = 1, .use = 3}, Op{.what = Op::submit, .key = 2, .use = 1}},
      {submit(1), just(Op::join), Op{.what = Op::submit, .key = 1, .use = 3},
       Op{.what = Op::submit, .key = 2, .use = 1}}};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Run run(programs, {}, seed);
    for (int r = 0; r < 3; ++r) {
      for (const CallRecord& call : run.world.calls(r)) CHECK_FALSE(call.error);
    }
  }
}

TEST_CASE("a broadcast from a rank that has joined is an error, and the store lives on") {
  Op second = submit(3);
  second.use = 1;
  const Run run({{broadcast(3, 1), wait(3), just(Op::join), second}, {just(Op::join), second}});
  CHECK(run.outcome(0, 0) == "key 3: the root, rank 1, has joined, and sends no values");
  CHECK(run.outcome(0, 1).empty());
}

TEST_CASE("an allgather that lacks a joined rank's shard is an error, a reduce_scatter is not") {
  Op second = submit(3);
  second.use = 1;
  for (const CollectiveKind kind : {CollectiveKind::allgather, CollectiveKind::reduce_scatter}) {
    Op half = submit(3, 5);
    half.signature.kind = kind;
    const Run run({{half, wait(3), just(Op::join), second},
                   {half, wait(3), just(Op::join), second},
                   {just(Op::join), second}});
    const bool gathers = kind == CollectiveKind::allgather;
    CHECK(run.outcome(0, 0) ==
          (gathers ? "key 3: no shard comes from ranks that have joined (rank 2)" : ""));
    CHECK(run.outcome(1, 0) == run.outcome(0, 0));
    CHECK(run.outcome(0, 1).empty());
  }
}

TEST_CASE(
    "a join that other ranks do not join times out, and the rank's later calls still meet theirs") {
  Op third = submit(1);
  third.use = 2;
  const Run run({{submit(1), just(Op::join), third, wait(1)},
                 {submit(1), wait(1), submit(1), wait(1), pause(2000s), submit(1)}});
  const auto& notices = run.observed.notices;
  CHECK(std::count(notices.begin(), notices.end(),
                   "join ended: join: rank 1 did not join, and nothing was exchanged, within 1800 "
                   "s (key_timeout, TUTTI_TIMEOUT_SECONDS)") == 1);
  for (int r = 0; r < 2; ++r) CHECK(run.outcome(r, r == 0 ? 1 : 2).empty());
}

TEST_CASE(
    "leaving lets started tensors finish and aborts calls that need the rank, the same "
    "everywhere") {
  const std::vector<Program> programs = {
      {submit(1), submit(2), wait(2), submit(3), just(Op::depart)},
      {submit(2), submit(1), just(Op::depart)},
      {submit(1), submit(2), wait(2), just(Op::barrier), wait(1), just(Op::depart)}};
  for (std::uint64_t seed = 0; seed < 300; ++seed) Run(programs, {}, seed);
}

TEST_CASE("rank 0 leaves last") {
  const Run run({{just(Op::depart)}, {pause(100s), just(Op::depart)}});
  CHECK(run.observed.notices.front() == "rank 0 can leave only after rank 1: 30 s so far");
}

TEST_CASE("a close that is held up names the ranks at which the last batches are not done") {
  Coordinator coordinator(3, {});
  coordinator.receive(1, DepartAsked{0});
  coordinator.receive(1, Drained{0});
  const std::vector<Outgoing> asked = coordinator.take_messages();
  REQUIRE(asked.size() == 1);
  CHECK(asked.front().to == everyone);
  CHECK(std::holds_alternative<Drain>(asked.front().message));
  coordinator.tick(30s);
  CHECK(coordinator.take_notices() ==
        std::vector<std::string>{"rank 1 can leave only after the last batches are done at ranks "
                                 "0 and 2: 30 s so far"});
  coordinator.receive(0, Drained{0});
  coordinator.tick(1800s);
  const std::vector<Outgoing> lost = coordinator.take_messages();
  REQUIRE(lost.size() == 1);
  CHECK(std::get<LostRank>(lost.front().message).reason ==
        "it waited 1800 s (key_timeout, TUTTI_TIMEOUT_SECONDS) and can leave only after the last "
        "batches are done at rank 2");
}

TEST_CASE("a close that tensors under way hold up names these and the ranks that are behind") {
  Coordinator coordinator(3, {.host = {.part_bytes = 1024}});
  const Signature signature{.shape = {1024}};  // four parts; three of them are planned ahead
  for (const int rank : {0, 1, 2}) {
    coordinator.receive(rank, Report{0, 0, {}, {{"w", signature, 0, 0, {}}}});
  }
  coordinator.receive(1, DepartAsked{0});
  coordinator.tick(30s);
  const std::string unknown = "rank 1 can leave only after the tensors under way are done ('w')";
  CHECK(coordinator.take_notices() == std::vector<std::string>{unknown + ": 30 s so far"});
  for (const int rank : {0, 1}) coordinator.receive(rank, Report{0, 1, {}, {}});
  coordinator.tick(60s);
  CHECK(coordinator.take_notices() ==
        std::vector<std::string>{unknown + ", held up by rank 2: 60 s so far"});
  coordinator.take_messages();
  coordinator.tick(1800s);
  const std::vector<Outgoing> lost = coordinator.take_messages();
  REQUIRE(lost.size() == 1);
  CHECK(std::get<LostRank>(lost.front().message).reason ==
        "it waited 1800 s (key_timeout, TUTTI_TIMEOUT_SECONDS) and can leave only after the "
        "tensors under way are done ('w'), held up "
        "by rank 2");
}

TEST_CASE("a rank that leaves can say how far its close is") {
  Participant participant(1, 2, {});
  participant.submit(1, {.key = "w", .signature = {.shape = {4}}});
  participant.take_actions();
  participant.receive(Plan{0, 0, {{0, "w", {.shape = {4}}}}, {{2, false, {{0, 0, 0, 4}}}}});
  participant.depart();
  participant.take_actions();
  CHECK_THAT(participant.describe(),
             Contains("; wants to leave, and has not been told yet that all is planned"));
  participant.receive(Drain{0});
  participant.take_actions();
  CHECK_THAT(participant.describe(),
             Contains("; wants to leave; its last batches must be done before anybody leaves"));
  participant.note_gate_closed(0, 0);
  participant.note_batch_done(0, 0);
  participant.take_actions();
  CHECK_THAT(participant.describe(), Contains("; wants to leave; has done all that was planned"));
  participant.receive(Departed{0});
  CHECK_THAT(participant.describe(), Contains("; free to leave"));
}

TEST_CASE("ranks are asked once whether they are done, whoever leaves when") {
  Coordinator coordinator(2, {});
  coordinator.receive(1, DepartAsked{0});
  for (const int rank : {0, 1}) coordinator.receive(rank, Drained{0});
  CHECK(coordinator.take_messages().size() == 2);
  coordinator.receive(1, Left{0});
  coordinator.receive(0, DepartAsked{0});
  const std::vector<Outgoing> last = coordinator.take_messages();
  REQUIRE(last.size() == 1);
  CHECK(last.front().to == 0);
  CHECK(std::holds_alternative<Departed>(last.front().message));
}

TEST_CASE("a rank that fails by itself when it may leave already is a loss for those who remain") {
  const Program leave = {submit(1), just(Op::depart)};
  for (const std::size_t failing : {0U, 1U, 2U}) {
    std::vector<Program> programs(3, leave);
    programs[failing].push_back(just(Op::fail));
    for (std::uint64_t seed = 0; seed < 200; ++seed) Run(programs, {}, seed);
  }
}

TEST_CASE("a death reaches every rank and ends every call") {
  for (const int victim : {0, 1, 2}) {
    std::vector<Program> programs(3, {submit(1), submit(2), wait(2), submit(2), wait(1),
                                      just(Op::barrier), just(Op::depart)});
    programs[static_cast<std::size_t>(victim)] = {submit(2), submit(1), wait(2), just(Op::die)};
    for (std::uint64_t seed = 0; seed < 100; ++seed) Run(programs, {}, seed);
  }
}
