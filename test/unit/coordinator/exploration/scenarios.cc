#include "scenarios.h"

#include "../programs.h"

namespace tutti::coordinator::test {
namespace {

using namespace std::chrono_literals;

using Programs = std::vector<Program>;

const Program two = {submit(1), submit(2), wait(1), wait(2)};
const Program two_back = {submit(2), submit(1), wait(1), wait(2)};
const Program three = {submit(1), submit(2), submit(3), wait(1), wait(2), wait(3)};
const Program three_back = {submit(3), submit(2), submit(1), wait(1), wait(2), wait(3)};
// Rounds that overlap, so that ranks are at different gates when one of them deviates.
const Program two_first = {submit(1), submit(2)};
const Program rolling_two = {wait(1), submit(1), wait(2), submit(2)};
const Program three_first = {submit(1), submit(2), submit(3)};
const Program rolling = {wait(1), submit(1), wait(2), submit(2), wait(3), submit(3)};
const Program meet_then_new = {just(Op::barrier), submit(9)};
const Program new_then_meet = {submit(9), just(Op::barrier)};
const Program new_key = {submit(9), wait(9)};
const Program leave = {just(Op::depart)};

/// The differences from the default, for one scenario.
struct Choice {
  bool replay = false;
  bool parts = false;
  bool fused = true;
  bool remembered = false;
  bool one_deadline = false;  ///< no report before the timeout
  int early_deadlines = 0;
};

Surroundings surroundings(const Choice& choice) {
  Surroundings all{.settings = {.replay = choice.replay},
                   .gates_are_remembered = choice.remembered,
                   .early_deadlines = choice.early_deadlines};
  if (choice.one_deadline) all.settings.stall_report_after = all.settings.key_timeout;
  if (!choice.fused) all.settings.host.fusion_bytes = 0;
  if (choice.parts) all.settings.host = {256, 256};
  return all;
}

/// Collects scenarios; those with a replay begin inside it.
struct Collector {
  std::vector<Scenario> all{};

  void add(const std::string& name, const Programs& programs, const Choice& choice = {},
           const Search& search = {}) {
    all.push_back({name, World(programs, surroundings(choice)), search});
  }
  void add_replaying(const std::string& name, const Programs& programs, Choice choice = {},
                     const Search& search = {}) {
    choice.replay = true;
    World start(programs, surroundings(choice));
    all.push_back(
        {name, advanced(start, [](const World& world) { return world.all_reached(1); }), search});
  }
  /// Marks the scenario that was added last.
  void mark_large() { all.back().is_large = true; }
};

void add_negotiations(Collector& to) {
  to.add("2 ranks, 3 keys, opposite orders", {three, three_back});
  to.add("3 ranks, 2 keys, used twice",
         {two + Program{submit(1)}, two_back + Program{submit(1)}, two + Program{submit(1)}});
  to.add("parts and a more urgent tensor",
         {{submit(1, 300), submit(2, 4, 1)}, {submit(1, 300), submit(2, 4, 1)}},
         {.parts = true, .remembered = true}, {.reduce = true});
  const Program sized = {submit(1, 2), wait(1), submit(1, 2)};
  to.add("a mismatch, then agreement", {sized, {submit(1, 3), wait(1), submit(1, 2)}, sized});
  const Program meet = {submit(1), just(Op::barrier), submit(2), wait(1), just(Op::barrier)};
  to.add("barriers among tensors",
         {meet, {just(Op::barrier), submit(1), submit(2), just(Op::barrier)}});
  to.add("a rank joins early",
         {{submit(1), wait(1), submit(1), wait(1), just(Op::join), as_use(submit(1), 2)},
          {submit(1), wait(1), just(Op::join), as_use(submit(1), 2)},
          {submit(1), wait(1), submit(1), wait(1), just(Op::join), as_use(submit(1), 2)}});
  to.add("ranks leave at different points",
         {Program{submit(1), submit(2)} + leave, Program{submit(2)} + leave,
          Program{submit(1)} + leave},
         {}, {.reduce = true});
  to.add("a departure in the middle of a tensor",
         {Program{submit(1, 300)} + leave, Program{submit(1, 300), wait(1)} + leave},
         {.parts = true, .remembered = true}, {.reduce = true});
  to.add(
      "a departure while another rank has joined",
      {Program{submit(1), submit(2), wait(1)} + leave, Program{submit(1), just(Op::join)} + leave});
  const Program on_time = {submit(1), wait(1), submit(1), submit(2), wait(2)};
  const Program late = {pause(1800s), submit(1), wait(1), submit(1), submit(2), wait(2)};
  to.add("a timeout, with the late rank at any moment", {on_time, late},
         {.one_deadline = true, .early_deadlines = 1});
}

void add_replays(Collector& to) {
  to.add("from negotiation into replay", {two * 3, two_back * 3}, {.replay = true});
  const Program urgent = {submit(1, 100), submit(2, 100, 1), wait(2), wait(1)};
  to.add("an urgent tensor passes another as replay begins", {urgent * 3, urgent * 3},
         {.replay = true, .fused = false}, {.reduce = true});
  to.add("a barrier as replay begins",
         {{submit(1), wait(1), submit(1), wait(1), just(Op::barrier), submit(1)},
          {submit(1), wait(1), submit(1), wait(1), submit(1), just(Op::barrier)}},
         {.replay = true});
  const Program twice_then_join = {submit(1), wait(1), submit(1), wait(1), just(Op::join)};
  to.add("a join as replay begins", {twice_then_join, twice_then_join}, {.replay = true});
  to.add_replaying("2 ranks, 3 keys, each a batch, others first at last",
                   {three * 4 + three_back, three_back * 3 + three * 2}, {.fused = false});
  const Program other_type = {with_dtype(submit(1), DType::f16), wait(1)};
  to.add_replaying("a mismatch in replay",
                   {two * 3 + other_type + two, two * 3 + Program{submit(1), wait(1)} + two});
  to.add_replaying("2 ranks, 3 keys, a new key in replay",
                   {three_first + rolling * 3 + new_key, three_first + rolling * 3 + new_key});
  to.mark_large();
  const Program then_new = two_first + rolling_two * 2 + Program{wait(1), submit(1), submit(9)};
  to.add_replaying("3 ranks, 2 keys, escapes at once", {then_new, then_new, then_new},
                   {.remembered = true}, {.reduce = true});
  to.mark_large();
  to.add_replaying("remembered gates, a new key in replay",
                   {two * 4 + new_key + two, two_back * 4 + new_key + two}, {.remembered = true});
  const Program large = {submit(1, 130), submit(2, 4), wait(2), wait(1)};
  const Program middle = {submit(1, 130), submit(9), wait(9), submit(2, 4), wait(1), wait(2)};
  to.add_replaying("parts, left in the middle of a tensor",
                   {large * 2 + middle, large * 2 + middle}, {.parts = true});
  to.mark_large();
  const Program one_by_one = {submit(1), wait(1), submit(2), wait(2)};
  const Program swapped = {submit(2), wait(2), submit(1), wait(1)};
  to.add_replaying("an order that changes",
                   {one_by_one * 4 + swapped * 3, one_by_one * 4 + swapped * 3});
  to.add_replaying("deadlines at any moment of a replay", {two * 4, two_back * 4},
                   {.early_deadlines = 1});
  const Program first = {submit(1), wait(1)};
  const Program second = {submit(2), wait(2)};
  to.add("a cycle after a join",
         {second + first + second + Program{just(Op::join)} + (first + second) * 3,
          Program{just(Op::join), as_use(submit(1), 1), wait(1), as_use(submit(2), 2), wait(2)} +
              (first + second) * 2},
         {.replay = true});
  const Program joined = {just(Op::join), as_use(submit(1), 4), as_use(submit(2), 4)};
  to.add_replaying("a join in replay", {two * 3 + joined, two * 4 + joined});
  to.add_replaying("a departure in replay",
                   {two * 4 + leave, two_back * 3 + Program{submit(1)} + leave});
  to.add("a key that timed out does not enter a replay",
         {{submit(1), submit(2), wait(1), wait(2), submit(1), wait(1), submit(1), wait(1),
           submit(2), wait(2), submit(1), submit(2), wait(1), wait(2)},
          {submit(1), submit(2), wait(1), wait(2), submit(1), pause(1801s), submit(2), wait(2),
           submit(1), wait(1), submit(1), submit(2)}},
         {.replay = true});
}

const Program leave_or_fail = leave + Program{just(Op::fail)};

void add_deaths(Collector& to) {
  const Program busy = {submit(1), wait(1), just(Op::barrier), just(Op::depart)};
  to.add("a death while negotiating", {busy, busy, {submit(1), wait(1), just(Op::die)}});
  to.add("the death of rank 0", {{submit(1), just(Op::die)}, busy, busy});
  to.add(
      "a rank fails by itself, perhaps when it may leave",
      {Program{submit(1)} + leave, Program{submit(1)} + leave_or_fail, Program{submit(1)} + leave});
  to.mark_large();
  to.add("rank 0 fails by itself, perhaps when it may leave",
         {Program{submit(1)} + leave_or_fail, Program{submit(1)} + leave});
  to.add_replaying("a death while replaying and escaping",
                   {two * 4 + new_key + leave, two * 4 + new_key + leave,
                    two_back * 3 + Program{submit(1), just(Op::die)}});
}

}  // namespace

std::vector<Scenario> quick_scenarios() {
  Collector to;
  add_negotiations(to);
  add_replays(to);
  add_deaths(to);
  return to.all;
}

std::vector<Scenario> scenarios_to_reduce() {
  Collector to;
  const Program more = two + Program{submit(1)};
  to.add("3 ranks, 2 keys", {more, two_back + Program{submit(1)}, two});
  to.add("ranks leave", {two + leave, Program{submit(2)} + leave, Program{submit(1)} + leave});
  for (const bool remembered : {false, true}) {
    to.add("into replay and out", {two * 2 + new_key, two_back * 2 + new_key},
           {.replay = true, .remembered = remembered});
  }
  return to.all;
}

Scenario with_late_flags() {
  Surroundings faulty = surroundings({.replay = true});
  faulty.gates_match_later_epochs = true;
  return {"from negotiation into replay", World({two * 3, two_back * 3}, faulty)};
}

std::vector<Scenario> slow_scenarios() {
  Collector to;
  const Program busy = {submit(1), submit(2), wait(1), just(Op::barrier), just(Op::depart)};
  to.add("a death among two keys", {busy, busy, {submit(2), submit(1), wait(2), just(Op::die)}});
  to.add("the death of rank 0 among two keys", {{submit(1), submit(2), just(Op::die)}, busy, busy});
  to.add_replaying("2 ranks, 3 keys, a new key earlier at one rank",
                   {three_first + rolling * 3 + new_key,
                    three_first + rolling * 2 + Program{submit(9)} + rolling});
  to.add_replaying(
      "3 ranks, 2 keys, two escapes at once, a round later",
      {two_first + rolling_two * 3 + meet_then_new, two_first + rolling_two * 3 + new_then_meet,
       two_first + rolling_two * 3 + meet_then_new});
  to.add("2 ranks, 3 keys, from negotiation into replay", {three * 3, three_back * 3},
         {.replay = true});
  const Search reduced{.reduce = true};
  const Program mixed = {submit(2), submit(3), submit(1), wait(2), wait(1), wait(3)};
  to.add("3 ranks, 3 keys", {three, three_back, mixed}, {.remembered = true}, reduced);
  to.add_replaying("3 ranks, 3 keys, a new key in replay",
                   {three * 4 + new_key, three_back * 4 + new_key, mixed * 3 + three + new_key},
                   {.remembered = true}, reduced);
  return to.all;
}

}  // namespace tutti::coordinator::test
