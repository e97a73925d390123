#include "world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tutti/error.h"

namespace tutti::coordinator::test {
namespace {

CallId call_id(int rank, std::size_t index) {
  return static_cast<CallId>(rank + 1) * 1000000 + index;
}

template <typename Message>
Message pop(CopyOnWrite<std::vector<Message>>& queue) {
  std::vector<Message>& messages = queue.change();
  Message first = std::move(messages.front());
  messages.erase(messages.begin());
  return first;
}

}  // namespace

std::string name(const Event& event) {
  static constexpr const char* names[] = {
      "to coordinator from", "to rank",           "program of", "gate at", "data at",
      "death seen by",       "coordinator loses", "time"};
  return fmt::format("{} {}", names[event.what], event.rank);
}

World::World(std::vector<Program> programs, const Surroundings& surroundings)
    : programs_(std::make_shared<const std::vector<Program>>(std::move(programs))),
      surroundings_(surroundings),
      coordinator_(Coordinator(size(), surroundings.settings)),
      batches_(Batches()),
      outcome_(std::map<std::pair<int, int>, std::string>()) {
  for (int r = 0; r < size(); ++r) {
    ranks_.push_back(
        {.state = CopyOnWrite(RankState(Participant(r, size(), surroundings.settings))),
         .up = CopyOnWrite(std::vector<ToCoordinator>()),
         .down = CopyOnWrite(std::vector<ToRank>())});
  }
}

bool World::program_over(int rank) const {
  const RankState& state = at(rank);
  return state.step == (*programs_)[static_cast<std::size_t>(rank)].size() && !state.in_barrier &&
         !state.in_join && !state.in_depart;
}

bool World::program_may_step(int rank) const {
  const RankState& state = at(rank);
  const Program& program = (*programs_)[static_cast<std::size_t>(rank)];
  if (state.step == program.size() || state.dead) return false;
  const Op& op = program[state.step];
  if (op.what == Op::fail) return true;
  if (state.in_barrier || state.in_join || state.in_depart) return false;
  if (op.what == Op::pause) return now_ >= op.until;
  if (op.what == Op::wait && state.waiting) {
    return state.calls[index_of(state.last_call.at(op.key))].finished;
  }
  return true;
}

void World::step_program(int rank) {
  RankState& state = change(rank);
  const Op& op = (*programs_)[static_cast<std::size_t>(rank)][state.step];
  if (op.what == Op::wait && !state.waiting) {
    const CallId call = state.last_call.at(op.key);
    if (!state.calls[index_of(call)].finished) {
      state.waiting = true;
      return;
    }
  }
  state.waiting = false;
  ++state.step;
  if (op.what == Op::submit) {
    submit_call(rank, op);
  } else if (op.what == Op::die) {
    state.dead = true;
    dead_ = rank;
  } else if (op.what == Op::fail) {
    state.failed = !state.lost && !state.departed;
    state.participant.note_lost(rank, "its device failed");
  } else if (op.what == Op::depart) {
    state.in_depart = true;
    state.participant.depart();
  } else if (!state.lost && op.what == Op::barrier) {
    state.in_barrier = true;
    submit_barrier(rank);
  } else if (!state.lost && op.what == Op::join) {
    state.in_join = state.has_joined = true;
    state.participant.join();
  }
}

void World::submit_call(int rank, const Op& op) {
  RankState& state = change(rank);
  int& uses = state.uses[op.key];
  if (op.use >= 0) uses = op.use;
  Call call{.key = op.key, .signature = op.signature, .priority = op.priority};
  call.signature.shape = Shape{static_cast<std::int64_t>(op.count)};
  state.last_call[op.key] = call_id(rank, state.calls.size());
  submit_call(rank, call, {.key = op.key, .use = uses++, .count = op.count});
}

void World::submit_barrier(int rank) {
  int& uses = change(rank).uses[barrier_number];
  submit_call(rank, barrier_call(), {.key = barrier_number, .use = uses++});
}

void World::submit_call(int rank, const Call& call, const CallRecord& record) {
  RankState& state = change(rank);
  const CallId id = call_id(rank, state.calls.size());
  state.calls.push_back(record);
  try {
    state.participant.submit(id, call);
  } catch (const Error& error) {
    require(state.lost, fmt::format("submit failed: {}", error.what()));
    state.calls.back().finished = true;
    state.calls.back().error = error.what();
  }
}

std::vector<Event> World::enabled() const {
  std::vector<Event> events;
  for (int r = 0; r < size(); ++r) {
    const RankState& state = at(r);
    const bool heard = coordinator_lives() && !(state.dead && coordinator_knows_dead_);
    if (!parts(r).up->empty() && heard) events.push_back({Event::to_coordinator, r});
    if (state.dead) {
      if (r != 0 && !coordinator_knows_dead_) events.push_back({Event::link_lost, r});
      continue;
    }
    if (!parts(r).down->empty()) events.push_back({Event::to_rank, r});
    if (program_may_step(r)) events.push_back({Event::user, r});
    if (gate_may_close(r)) events.push_back({Event::close, r});
    if (data_may_be_done(r)) events.push_back({Event::done, r});
    // One rank notices a death itself; the others must be told, unless the coordinator died.
    const bool notices = dead_ >= 0 && (dead_ == 0 || r == (dead_ + 1) % size());
    if (notices && !state.lost && !state.departed) events.push_back({Event::notice, r});
  }
  if ((events.empty() ? !all_over() : early_ < surroundings_.early_deadlines) && next_time()) {
    events.push_back({Event::time, 0});
  }
  return events;
}

void World::apply(const Event& event) {
  const int rank = event.rank;
  switch (event.what) {
    case Event::to_coordinator: {
      const ToCoordinator message = pop(parts(rank).up);
      coordinator_.change().receive(rank, message);
      return drain_coordinator();
    }
    case Event::to_rank: {
      const ToRank message = pop(parts(rank).down);
      RankState& state = change(rank);
      if (std::holds_alternative<Resume>(message)) state.halted = false;
      state.participant.receive(message);
      break;
    }
    case Event::user:
      step_program(rank);
      if (at(rank).dead) return;
      break;
    case Event::close: {
      const LocalBatch batch = at(rank).open.back().batch;
      close_gate(rank, batch.epoch, batch.number);
      change(rank).participant.note_gate_closed(batch.epoch, batch.number);
      break;
    }
    case Event::done:
      data_done(rank);
      break;
    case Event::notice:
      change(rank).participant.note_lost(dead_, "its process ended");
      break;
    case Event::link_lost:
      coordinator_knows_dead_ = true;
      parts(rank).up.change().clear();
      coordinator_.change().note_lost(rank, "its link ended");
      return drain_coordinator();
    case Event::time:
      return pass_time();
  }
  drain(rank);
}

std::optional<Time> World::next_time() const {
  std::optional<Time> next = coordinator_lives() ? coordinator_->next_tick() : std::nullopt;
  for (int r = 0; r < size(); ++r) {
    if (at(r).dead) continue;
    const auto due = at(r).participant.next_tick();
    if (due && (!next || *due < *next)) next = due;
  }
  for (int r = 0; r < size(); ++r) {
    const Program& program = (*programs_)[static_cast<std::size_t>(r)];
    const std::size_t step = at(r).step;
    if (at(r).dead || step == program.size() || program[step].what != Op::pause) continue;
    if (const Time until = program[step].until; until > now_ && (!next || until < *next))
      next = until;
  }
  return next;
}

void World::pass_time() {
  const Time due = *next_time();
  if (due > now_) {
    ++early_;
    stuck_ticks_ = 0;
  } else {
    require(++stuck_ticks_ < 4, "a deadline is due again and again");
  }
  now_ = std::max(now_, due);
  for (int r = 0; r < size(); ++r) {
    if (at(r).dead) continue;
    change(r).participant.tick(now_);
    drain(r);
  }
  if (!coordinator_lives()) return;
  coordinator_.change().tick(now_);
  drain_coordinator();
}

// Does the same as the executor: tells who waits when the participant asks for it.
void World::drain(int rank) {
  RankState& state = change(rank);
  for (Action& action : state.participant.take_actions()) act(rank, action);
  const bool waits = state.waiting || state.in_barrier;
  if (!waits || !state.participant.is_asking_who_waits()) return;
  state.participant.note_user_waits(
      state.in_barrier ? barrier_call().key
                       : Key((*programs_)[static_cast<std::size_t>(rank)][state.step].key));
  for (Action& action : state.participant.take_actions()) act(rank, action);
}

void World::drain_coordinator() {
  for (const Outgoing& out : coordinator_.change().take_messages()) {
    if (std::holds_alternative<Departed>(out.message)) {
      require(all_drained(), "I7: a rank is let go before all that was planned is done everywhere");
    }
    for (int r = 0; r < size(); ++r) {
      if ((out.to != everyone && out.to != r) || at(r).dead || at(r).departed) continue;
      if (observed_) ++observed_->messages;
      parts(r).down.change().push_back(out.message);
    }
  }
  for (std::string& notice : coordinator_.change().take_notices()) {
    if (observed_) observed_->notices.push_back(std::move(notice));
  }
}

bool World::all_reached(Epoch epoch) const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [epoch](const RankParts& rank) { return rank.state->epoch >= epoch; });
}

bool World::all_over() const {
  for (int r = 0; r < size(); ++r) {
    const RankState& state = at(r);
    if (state.dead) continue;
    if (!program_over(r)) return false;
    for (const CallRecord& call : state.calls) {
      if (!call.finished) return false;
    }
  }
  return true;
}

void World::check_end() const {
  require(all_over(), "it hangs: " + describe());
  const bool failed =
      std::any_of(ranks_.begin(), ranks_.end(), [](const RankParts& r) { return r.state->failed; });
  require(!failed || !coordinator_->is_finished(), "I6: a rank that failed is taken to have left");
  if (dead_ >= 0 || failed) {
    for (int r = 0; r < size(); ++r) {
      const RankState& state = at(r);
      require(state.dead || state.lost || state.departed,
              fmt::format("rank {} never heard of the loss", r));
    }
    return;
  }
  const bool all_departed = std::all_of(ranks_.begin(), ranks_.end(),
                                        [](const RankParts& r) { return r.state->departed; });
  require(all_departed == coordinator_->is_finished(), "the coordinator ends with the last rank");
}

}  // namespace tutti::coordinator::test
