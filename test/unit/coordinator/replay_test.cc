#include "programs.h"
#include "run_world.h"

using namespace tutti;
using namespace tutti::coordinator;
using namespace tutti::coordinator::test;
using namespace std::chrono_literals;

namespace {

const Surroundings replaying{.settings = {.replay = true}};

/// Messages of a run in lockstep: what can happen happens in a fixed order.
std::size_t messages(const std::vector<Program>& programs, const Surroundings& surroundings) {
  World world(programs, surroundings);
  Observed observed;
  world.observe(observed);
  for (;;) {
    const std::vector<Event> events = world.enabled();
    if (events.empty()) break;
    world.apply(events.front());
  }
  world.check_end();
  return observed.messages;
}

const Program step = {submit(1), submit(2), submit(3), wait(1), wait(2), wait(3)};
const Program other_order = {submit(3), submit(1), submit(2), wait(2), wait(1), wait(3)};

}  // namespace

TEST_CASE("steps that repeat are replayed without a message") {
  const std::size_t few = messages({step * 10, other_order * 10}, replaying);
  const std::size_t many = messages({step * 1000, other_order * 1000}, replaying);
  CHECK(many == few);
}

TEST_CASE("however a rank leaves a replay, calls still meet their counterparts") {
  const Program odd = {submit(9), wait(9)};
  const std::vector<Program> programs = {step * 6 + odd + step * 4,
                                         other_order * 6 + odd + step * 4,
                                         step * 5 + other_order + odd + step * 4};
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Run run(programs, replaying, seed);
    REQUIRE(run.observed.last_epoch >= 1);
  }
}

TEST_CASE("barriers are replayed, and take no message") {
  const Program program = (step + Program{just(Op::barrier)}) * 12;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Run run({program, program, program}, replaying, seed);
    REQUIRE(run.observed.last_epoch == 1);
  }
}

TEST_CASE("a replay is left for a barrier out of its order, a join and a departure") {
  for (const Op::What what : {Op::barrier, Op::join}) {
    const Program program = step * 5 + Program{just(what)} + step * 5 + Program{just(Op::depart)};
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Run run({program, program, program}, replaying, seed);
      for (int r = 0; r < 3; ++r) {
        for (const CallRecord& call : run.world.calls(r)) CHECK_FALSE(call.error);
      }
    }
  }
}

TEST_CASE("batches that were planned while a rank had joined are no part of a cycle") {
  const Program one_by_one = {submit(1), wait(1), submit(2), wait(2)};
  const Program again = {as_use(submit(1), 2), wait(1), as_use(submit(2), 2), wait(2)};
  const std::vector<Program> programs = {one_by_one * 2 + Program{just(Op::join)} + one_by_one * 5,
                                         Program{just(Op::join)} + again + one_by_one * 4};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Run run(programs, replaying, seed);
    REQUIRE(run.observed.last_epoch >= 1);
    REQUIRE(run.observed.active_ranks.size() == 14);
    for (std::size_t i = 0; i < 14; ++i) REQUIRE(run.observed.active_ranks[i] == (i < 4 ? 1 : 2));
  }
}

TEST_CASE("a changed order is served although the cycle had another") {
  const Program one_by_one = {submit(1), wait(1), submit(2), wait(2), submit(3), wait(3)};
  const Program backwards = {submit(3), wait(3), submit(2), wait(2), submit(1), wait(1)};
  const Program changing = one_by_one * 4 + backwards * 4 + one_by_one * 4;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Run run({changing, changing}, replaying, seed);
    INFO("who waits out of turn is let out at once, not when patience ends");
    REQUIRE(run.world.now() == Time{});
  }
}

TEST_CASE("in a cycle an urgent batch passes none that a rank waits for before it") {
  const Program waits = {submit(1), wait(1), submit(2, 1, 5), wait(2)};
  const Program does_not = {submit(1), submit(2, 1, 5), wait(1), wait(2)};
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Run run({waits * 8, does_not * 8}, replaying, seed);
    INFO("one replay serves to the end");
    REQUIRE(run.observed.last_epoch == 1);
  }
}

TEST_CASE("a changed signature leaves the replay") {
  Op half = submit(2);
  half.signature.dtype = DType::f16;
  const Program changed = {submit(1), half, submit(3), wait(1), wait(2), wait(3)};
  const Program program = step * 5 + changed * 5 + step * 2;
  for (std::uint64_t seed = 0; seed < 200; ++seed) Run({program, program}, replaying, seed);
}

TEST_CASE(
    "a close that a half replayed tensor holds up names the ranks that have not come back to it") {
  Coordinator coordinator(3, {.replay = true, .host = {.part_bytes = 1024}});
  const Signature two_parts{.shape = {512}};
  for (Round use = 0; use < 2; ++use) {
    for (const int rank : {0, 1, 2}) {
      coordinator.receive(rank, Report{0, 2 * use, {}, {{"w", two_parts, 0, use, {}}}});
    }
  }
  for (const int rank : {0, 1, 2}) coordinator.receive(rank, Stopped{0, 4});
  coordinator.receive(1, Escape{1, EscapeReason::request, "depart"});
  for (const int rank : {0, 1, 2}) coordinator.receive(rank, Stopped{1, 1});
  coordinator.receive(1, Report{2, 0, {{0, 0, 2, {}}}, {}});
  coordinator.receive(1, DepartAsked{2});
  coordinator.tick(30s);
  const std::vector<std::string> notices = coordinator.take_notices();
  REQUIRE(notices.size() == 2);
  CHECK(notices[0] == "waiting for ranks 0 and 2 to submit 'w': 30 s so far");
  CHECK(notices[1] ==
        "rank 1 can leave only after the tensors under way are done ('w'), held up by ranks 0 and "
        "2: 30 s so far");
}

TEST_CASE("tensors in parts are replayed, and left in the middle") {
  const Surroundings parts{
      .settings = {.replay = true, .host = {.fusion_bytes = 64, .part_bytes = 256}}};
  const Program large = {submit(1, 300), submit(2, 5), submit(3, 200, 1),
                         wait(3),        wait(2),      wait(1)};
  const Program end = {submit(1, 300), submit(2, 5), submit(9), wait(9),
                       submit(3, 200), wait(1),      wait(2),   wait(3)};
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Run({large * 5 + end + large, large * 5 + end + large}, parts, seed);
  }
}

TEST_CASE(
    "a rank that stays away from a replay is reported and timed out like from any other wait") {
  const Surroundings quick{.settings = {.replay = true, .key_timeout = 100s}};
  const Run run({step * 8, step * 6}, quick);
  CHECK(run.outcome(0, 18) ==
        "key 1: rank 1 did not submit it within 100 s (key_timeout, TUTTI_TIMEOUT_SECONDS)");
  CHECK(run.outcome(1, 17).empty());
}

TEST_CASE("a timeout that is shorter than the time to a report is kept in replay, too") {
  const Surroundings quick{.settings = {.replay = true, .key_timeout = 10s}};
  const Run run({step * 8, step * 6}, quick);
  CHECK(run.outcome(0, 18) ==
        "key 1: rank 1 did not submit it within 10 s (key_timeout, TUTTI_TIMEOUT_SECONDS)");
  CHECK(run.world.now() == 20s);
}

TEST_CASE(
    "nor does a stop, a join or a departure wait beyond a timeout that comes before a report") {
  Coordinator coordinator(2, {.replay = true, .key_timeout = 10s});
  const auto report = [&](Epoch epoch, Round round) {
    for (const int from : {0, 1}) {
      coordinator.receive(from, Report{.epoch = epoch,
                                       .entered = round,
                                       .ready = {},
                                       .fresh = {{.key = 1, .signature = {}, .round = round}}});
    }
  };
  const auto stopped = [&](Epoch epoch, BatchNumber entered) {
    for (const int from : {0, 1}) coordinator.receive(from, Stopped{epoch, entered});
  };
  coordinator.tick(0s);
  report(0, 0);
  report(0, 1);
  stopped(0, 2);
  // In replay the coordinator watches nothing.
  coordinator.tick(20s);
  CHECK_FALSE(coordinator.next_tick());
  coordinator.receive(0, Escape{.epoch = 1, .detail = "odd"});
  CHECK(coordinator.next_tick() == 30s);
  stopped(1, 0);
  coordinator.tick(30s);
  CHECK_FALSE(coordinator.next_tick());
  coordinator.receive(1, JoinAsked{2});
  CHECK(coordinator.next_tick() == 40s);
  coordinator.tick(40s);
  CHECK_FALSE(coordinator.next_tick());
  coordinator.receive(0, DepartAsked{2});
  CHECK(coordinator.next_tick() == 50s);
}

TEST_CASE("a call out of turn that nobody waits for is served before long") {
  const Program out_of_turn = {submit(3), pause(50s), submit(1), submit(2),
                               wait(1),   wait(2),    wait(3)};
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    Run({step * 6 + out_of_turn, step * 6 + out_of_turn}, replaying, seed);
}

TEST_CASE("a death during a replay, a stop or a change of epoch reaches everybody") {
  for (const int victim : {0, 1, 2}) {
    for (int length = 1; length < 12; length += 2) {
      std::vector<Program> programs(3, step * 6 + Program{submit(9), wait(9)} + step * 2);
      programs[static_cast<std::size_t>(victim)] = step * length + Program{just(Op::die)};
      for (std::uint64_t seed = 0; seed < 20; ++seed) Run(programs, replaying, seed);
    }
  }
}

TEST_CASE("a program without a repeating order is replayed ever less often") {
  Program program;
  for (int i = 0; i < 256; ++i) {
    program = program + Program{submit(1), submit(2), wait(1), wait(2),        submit(1),
                                submit(2), wait(1),   wait(2), submit(10 + i), wait(10 + i)};
  }
  const Run run({program, program}, replaying);
  CHECK(run.observed.last_epoch < 20);
}

namespace {

/// A job of one rank, whose gates close at once.
class Alone {
 public:
  Participant rank{0, 1, {.replay = true}};

  void submit(const Key& key) {
    rank.submit(++calls_, {key, {.shape = {4}}});
    run();
  }
  /// Carries out what there is to do. The reason of an escape, if it made one.
  std::optional<EscapeReason> run() {
    std::optional<EscapeReason> reason;
    for (;;) {
      const std::vector<Action> actions = rank.take_actions();
      if (actions.empty()) return reason;
      for (const Action& action : actions) {
        if (const auto* const send = std::get_if<Send>(&action)) {
          if (const auto* const escape = std::get_if<Escape>(&send->message)) {
            reason = escape->reason;
          }
          coordinator_.receive(0, send->message);
          for (const Outgoing& out : coordinator_.take_messages()) rank.receive(out.message);
        } else if (const auto* const enter = std::get_if<Enter>(&action)) {
          rank.note_gate_closed(enter->batch.epoch, enter->batch.number);
          rank.note_batch_done(enter->batch.epoch, enter->batch.number);
        }
      }
    }
  }

 private:
  Coordinator coordinator_{1, {.replay = true}};
  CallId calls_ = 0;
};

}  // namespace

TEST_CASE(
    "a thread that waits for no key's call, while a call out of turn is in flight, is let out at "
    "once") {
  Alone job;
  for (int round = 0; round < 10; ++round) {
    for (const char* const key : {"a", "b"}) job.submit(key);
  }
  REQUIRE(job.rank.is_replaying());
  job.rank.note_user_waits_elsewhere();
  CHECK_FALSE(job.run());
  job.submit("b");
  REQUIRE(job.rank.is_asking_who_waits());
  CHECK(job.rank.is_replaying());
  job.rank.note_user_waits_elsewhere();
  CHECK(job.run() == EscapeReason::waiting);
  job.submit("a");
}
