// The cost of the ordering protocol alone, without sending messages or waking threads: µs a step by
// number of keys and ranks, with the coordinator planning each step and in replay.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "benchmarks/registered.h"
#include "coordinator/coordinator.h"
#include "coordinator/participant.h"

namespace {

using namespace tutti::coordinator;
using Clock = std::chrono::steady_clock;

/// All participants and the coordinator in one thread. A gate closes as soon as every rank has
/// entered it, and moving data takes no time.
class Job {
 public:
  Job(int ranks, int keys, bool replay)
      : settings_{.replay = replay}, coordinator_(ranks, settings_) {
    for (int rank = 0; rank < ranks; ++rank) participants_.emplace_back(rank, ranks, settings_);
    actions_.resize(participants_.size());
    standing_.resize(participants_.size());
    for (int key = 0; key < keys; ++key) {
      Call call;
      call.key = key;
      call.signature.shape = {25};
      calls_.push_back(call);
    }
  }

  /// Lets every rank submit every key, and returns when all calls are over.
  void step() {
    unfinished_ = participants_.size() * calls_.size();
    for (Participant& participant : participants_) {
      // Time passes, but never enough for a timeout.
      participant.tick(now_);
      for (std::size_t i = 0; i < calls_.size(); ++i) participant.submit(i + 1, calls_[i]);
    }
    now_ += std::chrono::microseconds(10);
    while (unfinished_ > 0) look_around();
  }

  std::uint64_t messages() const { return messages_; }
  Clock::duration in_coordinator() const { return in_coordinator_; }

 private:
  struct Gate {
    Epoch epoch = 0;
    BatchNumber number = 0;
    bool open = false;
  };

  void look_around() {
    for (std::size_t rank = 0; rank < participants_.size(); ++rank) look(rank);
    answer();
    close_gate();
  }

  void look(std::size_t rank) {
    Participant& participant = participants_[rank];
    std::vector<Action>& actions = actions_[rank];
    for (;;) {
      actions = participant.take_actions(std::move(actions));
      if (actions.empty()) return;
      for (Action& action : actions) act(rank, action);
    }
  }

  void act(std::size_t rank, Action& action) {
    if (auto* const send = std::get_if<Send>(&action)) {
      ++messages_;
      mail_.emplace_back(static_cast<int>(rank), std::move(send->message));
    } else if (auto* const enter = std::get_if<Enter>(&action)) {
      standing_[rank] = {enter->batch.epoch, enter->batch.number, true};
      participants_[rank].reuse(std::move(enter->batch));
    } else if (std::holds_alternative<Finish>(action)) {
      --unfinished_;
    } else if (std::holds_alternative<Withdraw>(action)) {
      standing_[rank].open = false;
    } else if (const auto* const close = std::get_if<CloseGate>(&action)) {
      standing_[rank].open = false;
      participants_[rank].note_batch_done(close->epoch, close->number);
    }
  }

  void answer() {
    if (mail_.empty()) return;
    const auto start = Clock::now();
    coordinator_.tick(now_);
    for (auto& [from, message] : mail_) coordinator_.receive(from, message);
    mail_.clear();
    const std::vector<Outgoing> answers = coordinator_.take_messages();
    in_coordinator_ += Clock::now() - start;
    for (const Outgoing& answer : answers) {
      for (std::size_t rank = 0; rank < participants_.size(); ++rank) {
        if (answer.to != everyone && answer.to != static_cast<int>(rank)) continue;
        ++messages_;
        participants_[rank].receive(answer.message);
      }
    }
  }

  void close_gate() {
    const Gate& first = standing_.front();
    for (const Gate& gate : standing_) {
      if (!gate.open || gate.epoch != first.epoch || gate.number != first.number) return;
    }
    for (std::size_t rank = 0; rank < participants_.size(); ++rank) {
      Gate& gate = standing_[rank];
      gate.open = false;
      participants_[rank].note_gate_closed(gate.epoch, gate.number);
      participants_[rank].note_batch_done(gate.epoch, gate.number);
    }
  }

  const Settings settings_;
  Coordinator coordinator_;
  std::deque<Participant> participants_;
  std::vector<Call> calls_;
  std::vector<std::vector<Action>> actions_;  ///< by rank; empty, but they keep their memory
  std::vector<std::pair<int, ToCoordinator>> mail_;
  std::vector<Gate> standing_;  ///< by rank
  Time now_{};
  std::size_t unfinished_ = 0;
  std::uint64_t messages_ = 0;
  Clock::duration in_coordinator_{};
};

/// Measures the time of all ranks and the coordinator together. `rank_us` is one rank's share of a
/// step, and `coordinator_us` the coordinator's.
void run_steps(benchmark::State& state, int ranks, int keys, bool replay) {
  // These steps are enough for the cycle to be found and entered.
  constexpr int warmup = 8;
  Job job(ranks, keys, replay);
  for (int i = 0; i < warmup; ++i) job.step();
  const std::uint64_t messages = job.messages();
  const Clock::duration in_coordinator = job.in_coordinator();
  const auto start = Clock::now();
  while (state.KeepRunning()) job.step();
  using Microseconds = std::chrono::duration<double, std::micro>;
  const double whole = Microseconds(Clock::now() - start).count();
  const double coordinator = Microseconds(job.in_coordinator() - in_coordinator).count();
  const auto steps = static_cast<double>(state.iterations());
  state.counters["rank_us"] = (whole - coordinator) / steps / ranks;
  state.counters["coordinator_us"] = coordinator / steps;
  state.counters["messages"] = static_cast<double>(job.messages() - messages) / steps;
}

}  // namespace

int main(int argc, char** argv) {
  for (const bool replay : {false, true}) {
    for (const int ranks : {1, 2, 4, 8, 16, 64}) {
      for (const int keys : {1, 10, 160, 1000}) {
        const std::string label = std::string(replay ? "replayed" : "negotiated") +
                                  " ranks=" + std::to_string(ranks) +
                                  " keys=" + std::to_string(keys);
        benchmark::RegisterBenchmark(label.c_str(), run_steps, ranks, keys, replay)
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
  return tutti::bench::run_registered(argc, argv, 60);
}
