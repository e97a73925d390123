#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cycles.h"
#include "coordinator/fingerprint.h"
#include "coordinator/messages.h"
#include "coordinator/plan_log.h"
#include "coordinator/planner.h"
#include "coordinator/readiness.h"
#include "coordinator/text.h"
#include "coordinator/types.h"

namespace tutti::coordinator {

/// Rank 0's side of the ordering protocol. It receives reports and makes plans. A plain value,
/// driven by one thread. It has no clock: events happen at the time of the last `tick`.
class Coordinator {
 public:
  Coordinator(int size, const Settings& settings);

  /// Throws `internal` if no participant sends such a message.
  void receive(int from, const ToCoordinator& message);
  /// Call this when other processes have seen that a rank has died or hangs. If the rank may leave,
  /// that is no death.
  void note_lost(int rank, const std::string& reason);
  void tick(Time now);
  /// The latest time at which `tick` must be called.
  std::optional<Time> next_tick() const;

  std::vector<Outgoing> take_messages();
  /// Takes stall reports and other lines for rank 0's log.
  std::vector<std::string> take_notices();
  /// Whether every rank has left.
  bool is_finished() const;
  /// The number of keys that the ranks have reported.
  std::size_t keys() const { return keys_.size(); }
  /// Describes for the report of a hang: mode, epoch, and which key waits for which ranks.
  std::string describe() const;
  /// Adds all state that decides the future, in a canonical form.
  void fingerprint(Fingerprint& to) const;

 private:
  using Slot = Readiness::Slot;
  enum class Mode : std::uint8_t { negotiating, stopping, replaying, lost };
  struct Rank {
    bool joined = false;
    bool stopped = false;  ///< has answered this epoch's Stop
    bool leaving = false;  ///< has asked to depart
    bool drained = false;  ///< has answered Drain
    bool let_go = false;   ///< has been sent Departed
    bool gone = false;     ///< has said Left, or its end was seen after Departed
  };
  using Ranks = std::vector<int>;

  void handle(int from, const Report& report);
  void handle(int from, const JoinAsked& asked);
  void handle(int from, const DepartAsked& asked);
  void handle(int from, const Drained& drained);
  void handle(int from, const Left& left);
  void handle(int from, const Escape& escape);
  void handle(int from, const Stopped& stopped);
  void handle(int from, const LostRank& lost);
  bool is_negotiating(Epoch epoch) const { return epoch == epoch_ && mode_ == Mode::negotiating; }

  // readiness and plan (coordinator.cc)
  template <typename Ready>
  void count(int from, Slot slot, const Ready& ready);
  bool is_complete(const Gathering& gathering) const;
  void conclude(Slot slot);
  void fail(Slot slot, const Failure& failure);
  void end(Gathering& gathering, const Failure& failure);
  Failure late_failure(const Gathering& gathering, Round round, const std::string& what) const;
  std::string key_name(Slot slot) const { return named(keys_[slot].key); }
  void settle();
  void plan();
  Rank& rank(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  const Rank& rank(int r) const { return ranks_[static_cast<std::size_t>(r)]; }

  // meetings (coordinator_meetings.cc)
  void settle_join();
  void end_join(const std::optional<Failure>& failure);
  void conclude_loss(int r, const std::string& reason);
  void abort_what_has_not_started();
  void let_go();
  Ranks undrained() const;
  bool may_go(int r) const;
  bool has_started_work() const;
  Failure gone_failure(const std::string& what) const;

  // waiting (coordinator_watch.cc)
  void watch_from(Time since, Time& notice_at);
  void watch_keys();
  void watch_join();
  void watch_stop();
  void watch_leaving();
  std::string what_holds_leaving() const;
  std::string what_is_under_way() const;
  void note(Time due);
  Ranks missing(const Gathering& gathering) const;
  Ranks ranks_that(bool (*holds)(const Rank&)) const;

  // epochs (coordinator_epochs.cc)
  void record(const PlanBatch& batch);
  void consider_replay();
  bool may_replay(const Cycle& cycle) const;
  void stop();
  void resume();
  void roll_back();
  void end_replay();

  void send(int to, ToRank message) { messages_.push_back({to, std::move(message)}); }

  int size_;
  Settings settings_;
  Time now_{};
  Epoch epoch_ = 0;
  Mode mode_ = Mode::negotiating;
  std::vector<Rank> ranks_;
  int joined_ = 0;
  int last_joined_ = 0;
  int first_to_leave_ = -1;
  bool draining_ = false;  ///< Drain has been sent; once, because nothing is planned afterwards

  Readiness keys_;
  Planner planner_;
  PlanLog log_;
  std::uint64_t bytes_unacknowledged_ = 0;
  std::vector<Agreement> agreements_;  ///< the next plan announces them
  CycleFinder cycles_;
  std::optional<Cycle> replay_;    ///< replayed, or to be once all have stopped
  std::uint64_t replay_from_ = 0;  ///< its batch that is this epoch's first
  bool was_replaying_ = false;     ///< while stopping
  std::string last_escape_;

  Time join_waits_since_{};  ///< the last join or plan, whichever is later
  Time join_notice_at_{};
  Time stop_since_{};
  Time stop_notice_at_{};
  Time leave_waits_since_{};
  Time leave_notice_at_{};
  std::optional<Time> watch_at_;

  std::vector<Outgoing> messages_;
  std::vector<std::string> notices_;
};

}  // namespace tutti::coordinator
