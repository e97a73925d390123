// The environment's half: gates, data, and what the invariants say of them.
#include <fmt/format.h>

#include <algorithm>

#include "world.h"

namespace tutti::coordinator::test {
namespace {

std::string name(const LocalBatch& batch) {
  return fmt::format("{}.{}", batch.epoch, batch.number);
}

}  // namespace

void World::act(int rank, Action& action) {
  RankState& state = change(rank);
  if (auto* send = std::get_if<Send>(&action)) {
    const auto& message = send->message;
    if (std::holds_alternative<Escape>(message) || std::holds_alternative<Stopped>(message)) {
      state.halted = true;
    }
    if (observed_) ++observed_->messages;
    parts(rank).up.change().push_back(std::move(send->message));
  } else if (const auto* enter = std::get_if<Enter>(&action)) {
    entered(rank, enter->batch);
  } else if (const auto* withdraw = std::get_if<Withdraw>(&action)) {
    withdrawn(rank, *withdraw);
  } else if (const auto* close = std::get_if<CloseGate>(&action)) {
    close_gate(rank, close->epoch, close->number);
  } else if (const auto* finish = std::get_if<Finish>(&action)) {
    finished(rank, *finish);
  } else if (const auto* join = std::get_if<JoinDone>(&action)) {
    require(state.in_join, "a join ends once");
    state.in_join = false;
    ended("join", join->error);
  } else if (std::holds_alternative<DepartDone>(action)) {
    const auto others_departed = static_cast<std::size_t>(std::count_if(
        ranks_.begin(), ranks_.end(), [](const RankParts& r) { return r.state->departed; }));
    require(state.in_depart && (state.lost || state.open.empty()), "a rank leaves without work");
    require(state.lost || rank != 0 || others_departed == ranks_.size() - 1,
            "I7: rank 0 leaves last");
    state.in_depart = false;
    state.departed = true;
  } else if (const auto* loss = std::get_if<PeerLost>(&action)) {
    require(!state.lost, "LOST is concluded once");
    require(loss->rank == dead_ || at(loss->rank).failed, "that rank lives: " + loss->message);
    lose(rank);
  } else if (observed_) {
    observed_->notices.push_back(std::get<Notice>(action).text);
  }
}

void World::lose(int rank) {
  RankState& state = change(rank);
  state.lost = true;
  state.in_barrier = state.in_join = false;
  for (CallRecord& call : state.calls) {
    if (call.finished) continue;
    call.finished = true;
    call.error = "lost";
  }
}

void World::ended(const std::string& what, const std::optional<Error>& error) {
  if (error && observed_) observed_->notices.push_back(what + " ended: " + error->what());
}

World::BatchRecord& World::record(Epoch epoch, BatchNumber number) {
  const auto [at, fresh] = batches_.change().try_emplace({epoch, number});
  if (fresh) {
    const auto n = static_cast<std::size_t>(size());
    at->second.entered.resize(n);
    at->second.closed.resize(n);
    at->second.done.resize(n);
  }
  return at->second;
}

void World::entered(int rank, const LocalBatch& batch) {
  RankState& state = change(rank);
  require(!state.halted, fmt::format("I2: rank {} enters {} after it stopped", rank, name(batch)));
  const bool next = batch.epoch == state.epoch ? batch.number == state.entered
                                               : batch.epoch > state.epoch && batch.number == 0;
  require(next, fmt::format("I2: rank {} enters {} out of order", rank, name(batch)));
  require(state.open.empty() ||
              (state.open.size() < surroundings_.settings.most_open && state.open.back().closed),
          fmt::format("rank {} enters {} too early", rank, name(batch)));
  state.epoch = batch.epoch;
  state.entered = batch.number + 1;
  state.open.push_back({batch, false});
  BatchRecord& known = record(batch.epoch, batch.number);
  require(!known.withdrawn, fmt::format("{} is entered after it was withdrawn", name(batch)));
  known.entered[static_cast<std::size_t>(rank)] = true;
  compare(rank, batch, known);
}

// Every rank must mean the same by a batch: the same ranges of the same use of the same keys.
void World::compare(int rank, const LocalBatch& batch, BatchRecord& known) {
  if (known.parts.empty()) {
    known.batch = batch;
    known.parts.resize(batch.parts.size());
    known.contributors.resize(batch.parts.size());
  }
  LocalBatch mine = batch;
  LocalBatch other = known.batch;
  for (LocalBatch* one : {&mine, &other}) {
    for (LocalPart& part : one->parts) part.call = 0;
  }
  require(mine == other, fmt::format("ranks plan {} differently", name(batch)));
  std::string line;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const LocalPart& part = batch.parts[i];
    if (part.call == 0) {
      require(at(rank).has_joined, fmt::format("rank {} contributes nothing", rank));
      continue;
    }
    const CallRecord& call = at(rank).calls[index_of(part.call)];
    require(!call.finished, "a batch holds calls in flight");
    const std::string text =
        fmt::format("{}.{}[{},{})", call.key, call.use, part.begin, part.begin + part.count);
    if (known.parts[i].empty()) known.parts[i] = text;
    require(known.parts[i] == text,
            fmt::format("I5: rank {} pairs {} with {}", rank, text, known.parts[i]));
    ++known.contributors[i];
    line += (line.empty() ? "" : " ") + text;
  }
  if (rank == 0 && observed_) {
    observed_->order.push_back(line);
    observed_->active_ranks.push_back(batch.active_ranks);
    observed_->last_epoch = std::max(observed_->last_epoch, batch.epoch);
  }
}

void World::withdrawn(int rank, const Withdraw& withdraw) {
  RankState& state = change(rank);
  require(!state.open.empty() && state.open.back().batch.epoch == withdraw.epoch &&
              state.open.back().batch.number == withdraw.number && !state.open.back().closed,
          "what is withdrawn has an open gate");
  BatchRecord& known = record(withdraw.epoch, withdraw.number);
  require(std::count(known.closed.begin(), known.closed.end(), true) == 0,
          fmt::format("{} is withdrawn though its data moves elsewhere",
                      name(state.open.back().batch)));
  known.withdrawn = true;
  state.open.pop_back();
}

bool World::gate_may_close(int rank) const {
  const RankState& state = at(rank);
  if (state.open.empty() || state.open.back().closed || state.lost) return false;
  const LocalBatch& batch = state.open.back().batch;
  if (surroundings_.gates_are_remembered) {
    const auto& entered = batches_->at({batch.epoch, batch.number}).entered;
    return std::all_of(entered.begin(), entered.end(), [](bool e) { return e; });
  }
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const RankParts& parts) {
    const RankState& other = *parts.state;
    if (surroundings_.gates_match_later_epochs && other.epoch > batch.epoch) return true;
    return other.epoch == batch.epoch && other.entered > batch.number;
  });
}

void World::close_gate(int rank, Epoch epoch, BatchNumber number) {
  RankState& state = change(rank);
  require(!state.open.empty() && state.open.back().batch.epoch == epoch &&
              state.open.back().batch.number == number && !state.open.back().closed,
          "only the last gate is open");
  BatchRecord& known = record(epoch, number);
  const bool all =
      std::all_of(known.entered.begin(), known.entered.end(), [](bool e) { return e; });
  require(all, fmt::format("I1: {}.{} closes at rank {} before all entered", epoch, number, rank));
  require(!known.withdrawn, fmt::format("{}.{} closes after it was withdrawn", epoch, number));
  for (std::size_t i = 0; i < known.parts.size(); ++i) {
    require(known.contributors[i] == known.batch.active_ranks,
            fmt::format("{} ranks contribute to {} but {} count", known.contributors[i],
                        known.parts[i], known.batch.active_ranks));
  }
  known.closed[static_cast<std::size_t>(rank)] = true;
  state.open.back().closed = true;
}

// A rank's data moves only while every other rank moves the same batch, or has moved it.
bool World::data_may_be_done(int rank) const {
  const RankState& state = at(rank);
  if (state.open.empty() || !state.open.front().closed || state.lost) return false;
  const LocalBatch& batch = state.open.front().batch;
  const BatchRecord& known = batches_->at({batch.epoch, batch.number});
  for (int r = 0; r < size(); ++r) {
    if (known.done[static_cast<std::size_t>(r)]) continue;
    const RankState& other = at(r);
    if (other.dead || other.lost || other.open.empty() || !other.open.front().closed) return false;
    const LocalBatch& theirs = other.open.front().batch;
    if (theirs.epoch != batch.epoch || theirs.number != batch.number) return false;
  }
  return true;
}

// A plan is entered when it arrives unless batches before it are open.
bool World::all_drained() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankParts& rank) {
    return rank.state->open.empty() &&
           std::none_of(rank.down->begin(), rank.down->end(), [](const ToRank& message) {
             return std::holds_alternative<Plan>(message);
           });
  });
}

// With flags, a gate that a rank sees closed now will not look closed later, once another rank's
// flag shows the next epoch. No rank goes there before this one has answered the stop, and Resume
// lets this one do so.
bool World::is_shielded(int rank) const {
  const RankState& state = at(rank);
  if (parts(rank).down->empty()) return false;
  const bool gate_is_open = !state.open.empty() && !state.open.back().closed;
  const bool data_moves = !state.open.empty() && state.open.front().closed;
  if (gate_is_open && !gate_may_close(rank)) return false;
  if (data_moves && !data_may_be_done(rank)) return false;
  if (surroundings_.gates_are_remembered) return true;
  return !std::holds_alternative<Resume>(parts(rank).down->front()) &&
         !(gate_is_open && state.halted);
}

void World::data_done(int rank) {
  RankState& state = change(rank);
  const LocalBatch batch = state.open.front().batch;
  state.open.erase(state.open.begin());
  for (const LocalPart& part : batch.parts) {
    if (part.call == 0) continue;
    CallRecord& call = state.calls[index_of(part.call)];
    require(call.moved == part.begin, "parts move in order, once");
    call.moved += part.count;
  }
  BatchRecord& known = record(batch.epoch, batch.number);
  known.done[static_cast<std::size_t>(rank)] = true;
  if (std::all_of(known.done.begin(), known.done.end(), [](bool d) { return d; })) {
    batches_.change().erase({batch.epoch, batch.number});
  }
  state.participant.note_batch_done(batch.epoch, batch.number);
}

void World::finished(int rank, const Finish& finish) {
  CallRecord& call = change(rank).calls[index_of(finish.call)];
  require(!call.finished, "a call ends once");
  call.finished = true;
  if (finish.error) {
    call.error = finish.error->what();
    require(call.moved == 0, "I5: a tensor with parts done fails: " + *call.error);
  } else {
    require(call.moved == call.count, "I3: a call ends before its data moved");
  }
  if (call.key == barrier_number) {
    change(rank).in_barrier = false;
    ended("barrier", finish.error);
  }
  const std::string text = call.error.value_or("");
  const auto [known, fresh] = outcome_.change().try_emplace({call.key, call.use}, text);
  require(fresh || known->second == text,
          fmt::format("use {} of key {} ends as '{}' on rank {} but as '{}' elsewhere", call.use,
                      call.key, text, rank, known->second));
}

}  // namespace tutti::coordinator::test
