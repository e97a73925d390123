#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/fingerprint.h"
#include "coordinator/key_hash.h"
#include "coordinator/messages.h"
#include "coordinator/types.h"
#include "tutti/error.h"

namespace tutti::coordinator {

/// An action that the owner of a Participant must take. Actions come in their order.
struct Send {
  ToCoordinator message;
};
/// Enter the batch's gate, after reserving everything that the batch needs on this rank. Batches
/// are entered in order. At this time fewer than `Settings::most_open` earlier batches are
/// unfinished, and their gates have closed. The batch's data moves once its gate has closed,
/// perhaps beside the data of earlier batches. Batches are done in order.
struct Enter {
  LocalBatch batch;
};
/// Forget this gate: this rank has entered it, but it did not close and never will. The batch's
/// data has not moved.
struct Withdraw {
  Epoch epoch;
  BatchNumber number;
};
/// Move the batch's data. Its gate counts as closed, though this rank did not see it close.
struct CloseGate {
  Epoch epoch;
  BatchNumber number;
};
/// A call is over. Its key may already be used again.
struct Finish {
  CallId call;
  std::optional<Error> error;
};
struct JoinDone {
  int last;  ///< the last rank to join
  std::optional<Error> error;
};
/// This rank may leave. Its end counts as no death any more.
struct DepartDone {};
/// Terminal: every call and join in flight fails with this error, whose code is `peer_lost`.
struct PeerLost {
  int rank;
  std::string message;
};
/// A line for the log.
struct Notice {
  std::string text;
};
using Action =
    std::variant<Send, Enter, Withdraw, CloseGate, Finish, JoinDone, DepartDone, PeerLost, Notice>;

/// One rank's side of the ordering protocol: a plain value, driven by one thread. It has no clock:
/// events happen at the time of the last `tick`. After any event, the owner takes the actions.
class Participant {
 public:
  Participant(int rank, int size, const Settings& settings);

  /// Returns the key's number on this rank: small, and the same for all calls of the key. Throws,
  /// and then submits nothing:
  /// - `duplicate_key`;
  /// - `invalid_argument` between `join` and its end;
  /// - `aborted` after `depart`;
  /// - `peer_lost` once a rank is lost.
  std::uint32_t submit(CallId id, const Call& call);
  /// Begins a join. JoinDone or Lost answers it; only then may this be called again.
  void join();
  /// From now on nothing can be submitted. DepartDone or Lost answers this. Tensors that have not
  /// started fail with `aborted` on every rank.
  void depart();
  /// Notes that the gate has closed. Ignored if Resume closed it first.
  void note_gate_closed(Epoch epoch, BatchNumber number);
  /// Notes that the batch's data has moved on this rank. Call this in the batches' order.
  void note_batch_done(Epoch epoch, BatchNumber number);
  /// Notes that a user thread waits for the key's call, which may be over already.
  void note_user_waits(const Key& key);
  /// Notes that a user thread waits for something that belongs to no key. The replay may lack a
  /// call that the thread makes after it.
  void note_user_waits_elsewhere();
  /// Whether batches follow without messages to the coordinator.
  bool is_replaying() const { return !cycle_.empty() && !halted_; }
  /// Whether the replay lacks a call. Then `note_user_waits` for another call may end the replay.
  bool is_asking_who_waits() const {
    return !cycle_.empty() && !halted_ && lacks_next_ && to_plan_ > 0;
  }
  /// Notes that this rank has seen a failure of a link, a process, MPI or a device.
  void note_lost(int rank, const std::string& reason);
  /// Throws `internal` if no coordinator sends such a message.
  void receive(const ToRank& message);
  void tick(Time now);
  /// The latest time at which `tick` must be called.
  std::optional<Time> next_tick() const;

  /// Takes the actions. `memory` is the result of an earlier call, whose memory is used again.
  std::vector<Action> take_actions(std::vector<Action> memory = {});
  /// Takes back the batch of an `Enter`, whose memory is used again.
  void reuse(LocalBatch&& batch);
  /// Describes for the report of a hang: mode, epoch, gates, calls in flight.
  std::string describe() const;
  /// Adds all state that decides the future, in a canonical form.
  void fingerprint(Fingerprint& to) const;

 private:
  using Slot = std::uint32_t;
  struct CallState {
    CallId id;
    Round round;
    Signature signature;
    std::optional<KeyId> agreed;  ///< the id of key and signature, when there is one
    int priority;
    Time submitted;
    std::uint64_t sequence;         ///< order of submission
    std::uint64_t next = 0;         ///< elements planned (in replay: entered) so far
    bool planned_entirely = false;  ///< tells a planned tensor without elements from an unplanned
    bool waited_for = false;

    CallState(CallId its_id, Round its_round, const Call& call, Time now, std::uint64_t order)
        : id(its_id),
          round(its_round),
          signature(call.signature),
          priority(call.priority),
          submitted(now),
          sequence(order) {}
  };
  struct KeyUse {
    Key key;
    Round next_round = 0;
    std::optional<CallState> call;
    std::vector<KeyId> ids;  ///< the ids of its agreed signatures
    Time usual_wait{};       ///< the time from submit to gate, when the key was last negotiated
  };
  struct KnownId {
    Slot slot = 0;
    Signature signature;
  };
  struct PartOwner {
    Slot slot = 0;
    bool last = false;  ///< the call is over after it
  };
  struct TrackedBatch {
    LocalBatch local;
    std::vector<PartOwner> owners;  ///< the owner of each part in planned.parts
    bool acknowledge = false;
    bool closed = false;
    Time entered_at{};
  };
  /// Objects that are kept only for their memory. They are no state, so a copy of this begins
  /// empty.
  template <typename T>
  class Scrap {
   public:
    Scrap() = default;
    ~Scrap() = default;
    Scrap(const Scrap& other) { static_cast<void>(other); }
    Scrap(Scrap&& other) noexcept = default;
    Scrap& operator=(const Scrap& other) {
      static_cast<void>(other);
      return *this;
    }
    Scrap& operator=(Scrap&& other) noexcept = default;

    T take() {
      if (pile_.empty()) return T{};
      T last = std::move(pile_.back());
      pile_.pop_back();
      return last;
    }
    void add(T&& scrap) {
      // No more are ever in use at once.
      if (pile_.size() < 4) pile_.push_back(std::move(scrap));
    }

   private:
    std::vector<T> pile_;
  };
  /// A request to the coordinator.
  struct Request {
    bool wanted = false;
    bool sent = false;
  };

  // calls and plan (participant.cc, participant_plan.cc)
  Slot slot_of(const Key& key);
  const KeyId* id_of(const KeyUse& use, const Signature& signature) const;  ///< null: none yet
  const KnownId& known(KeyId id) const;
  void learn(const Agreement& agreement);
  TrackedBatch resolve(const PlanBatch& planned, BatchNumber number);
  PartOwner take(const PlanPart& part, LocalPart& into);
  void handle(const Plan& plan);
  void handle(const Failed& failed);
  void handle(const JoinOver& over);
  void handle(const Drain& drain);
  void handle(const Departed& departed);
  void handle(const Stop& stop);
  void handle(const Resume& resume);
  void handle(const LostRank& lost);
  void finish(Slot slot, std::optional<Error> error);
  bool is_current(Epoch epoch) const;

  // replay (participant_replay.cc)
  void begin_replay(const Resume& resume);
  void await_turn(Slot slot);
  Time patience_of(const KeyUse& use) const;
  void replay();
  bool is_next_ready();
  void escape_if_stuck();
  void forget_served_waits();
  void escape(EscapeReason reason, const std::string& detail);

  // progress (participant_progress.cc)
  void pump();
  bool may_enter() const;
  void enter(TrackedBatch batch);
  void report();
  void report_some();
  void send_requests();
  void say_drained();
  void leave_if_done();
  void withdraw(const TrackedBatch& batch);
  void watch_gate();
  std::vector<Slot> unplanned() const;
  std::vector<std::string> keys_in_flight() const;
  std::string describe_leaving() const;

  int rank_;
  int size_;
  Settings settings_;
  Time now_{};

  Epoch epoch_ = 0;
  bool halted_ = false;  ///< after Escape or Stop, until Resume: enters no gate
  BatchNumber entered_ = 0;
  BatchNumber planned_ = 0;
  std::deque<TrackedBatch> queued_;  ///< planned, not entered
  std::vector<TrackedBatch> open_;   ///< entered, not done; only the last may be not closed
  bool owes_acknowledgement_ = false;

  std::vector<KeyUse> keys_;
  std::unordered_map<Key, Slot, KeyHash> slots_;  ///< looked up, never iterated
  Slot next_slot_ = 0;                            ///< a guess, which decides nothing
  std::vector<std::optional<KnownId>> ids_;
  std::vector<Slot> unreported_;
  std::uint64_t submissions_ = 0;
  std::size_t to_plan_ = 0;  ///< calls in flight that are not planned entirely

  std::vector<PlanBatch> cycle_;   ///< empty: negotiating
  std::size_t cursor_ = 0;         ///< the next batch in it
  std::size_t ready_parts_ = 0;    ///< the number of that batch's parts that were found ready
  bool lacks_next_ = false;        ///< whether that batch needs a call that is not here
  std::vector<bool> in_cycle_;     ///< by KeyId
  std::optional<Slot> deviation_;  ///< a call that the cycle never serves
  struct Wait {
    Slot slot = 0;
    Round round = 0;
  };
  std::vector<Wait> waits_;  ///< calls that a user waits for; some may be entered or over
  std::optional<Time> impatient_at_;

  Request join_;
  Request depart_;
  bool told_to_drain_ = false;  ///< only for the text that says what holds a close up
  bool owes_drained_ = false;
  bool may_leave_ = false;
  bool left_ = false;
  std::optional<PeerLost> lost_;
  std::optional<Time> gate_notice_at_;

  std::vector<Action> actions_;
  /// The memory of finished batches, for the next ones.
  Scrap<TrackedBatch> spare_batches_;
  Scrap<LocalBatch> spare_plans_;
};

}  // namespace tutti::coordinator
