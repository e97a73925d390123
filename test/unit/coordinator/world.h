#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/participant.h"
#include "mark.h"

// A whole job as one copyable value: the production classes of both sides, the messages between
// them, and an environment that closes gates and moves data as slowly and as oddly as is allowed.
// Every choice is an event, so that a test may draw them at random or try them all.
namespace tutti::coordinator::test {

/// A step of a rank's program. A program is run in order, by one user thread a rank.
struct Op {
  enum What : std::uint8_t {
    submit,
    wait,  ///< for the last call of the key
    barrier,
    join,
    depart,
    die,
    fail,   ///< by itself, also while it departs; nothing when it has left or heard of another's
            ///< loss
    pause,  ///< until `until`
  };
  What what = submit;
  int key = 0;
  int priority = 0;
  std::size_t count = 1;  ///< elements
  Signature signature{};  ///< its shape is overwritten by `count`
  Time until{};
  int use = -1;  ///< which use of the key this is meant to be; -1: this rank's next
};
using Program = std::vector<Op>;

inline Op submit(int key, std::size_t count = 1, int priority = 0) {
  return {.what = Op::submit, .key = key, .priority = priority, .count = count};
}
inline Op wait(int key) {
  return {.what = Op::wait, .key = key};
}
inline Op pause(Time until) {
  return {.what = Op::pause, .until = until};
}
inline Op just(Op::What what) {
  return {.what = what};
}

struct Event {
  enum What : std::uint8_t {
    to_coordinator,  ///< the oldest message from the rank arrives
    to_rank,         ///< the oldest message to the rank arrives
    user,            ///< the rank's program takes a step
    close,           ///< the rank sees its open gate closed
    done,            ///< the rank's oldest batch has moved
    notice,          ///< the rank sees that another has died
    link_lost,       ///< the coordinator sees that the rank has died
    time,            ///< nothing happens until the next deadline
  };
  What what;
  int rank = 0;
};
std::string name(const Event& event);

/// Something that must never be.
struct Violation {
  std::string what;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Violation{what};
}

/// The index of a call within its rank's program.
inline std::size_t index_of(CallId id) {
  return id % 1000000;
}

/// Stands for the barrier's key, which is no number.
constexpr int barrier_number = -1;

struct CallRecord {
  int key = 0;
  int use = 0;
  std::size_t count = 0;
  std::size_t moved = 0;
  bool finished = false;
  std::optional<std::string> error{};
};

/// The events that the environment may cause.
struct Surroundings {
  Settings settings{};
  /// A gate may be seen closed although flags have moved on, as between leaders. Otherwise flags
  /// must show the exact epoch, as within a node.
  bool gates_are_remembered = false;
  /// So many times the clock may jump to the next deadline while other things could happen.
  int early_deadlines = 0;
  /// A fault, put in on purpose to see that it is found: a flag of a later epoch opens a gate too.
  bool gates_match_later_epochs = false;
};

/// The facts about the way, and not about the state, that a test checks.
struct Observed {
  /// Batches in the order in which rank 0 entered them: "3.0[0,64) 4.0[0,8)" is key 3's and key 4's
  /// first use.
  std::vector<std::string> order;
  std::vector<int> active_ranks;  ///< beside order
  std::vector<std::string> notices;
  std::size_t messages = 0;
  Epoch last_epoch = 0;
};

class World {
 public:
  World(std::vector<Program> programs, const Surroundings& surroundings);
  /// From now on also notes what happens in `observed`, which outlives the world.
  void observe(Observed& observed) { observed_ = &observed; }

  std::vector<Event> enabled() const;
  /// Nothing that other ranks or the coordinator do can enable, change or disable an event of this
  /// rank before it does one of those it can do now.
  bool is_shielded(int rank) const;
  /// Throws `Violation` when it breaks an invariant.
  void apply(const Event& event);
  /// Call this when no event is enabled. Throws `Violation` unless everything came to its end.
  void check_end() const;
  /// Equal for worlds with equal futures.
  Mark mark() const;
  /// Does the same for one rank, whatever the others do.
  Mark mark_of_rank(int rank) const { return parts(rank).state.mark(bytes_of_rank); }
  std::string describe() const;

  Time now() const { return now_; }
  /// Every rank has entered a gate of the epoch, or of a later one.
  bool all_reached(Epoch epoch) const;
  int size() const { return static_cast<int>(programs_->size()); }
  const std::vector<CallRecord>& calls(int rank) const { return at(rank).calls; }

 private:
  struct OpenBatch {
    LocalBatch batch;
    bool closed = false;
  };
  struct RankState {
    explicit RankState(Participant side) : participant(std::move(side)) {}
    Participant participant;
    std::size_t step = 0;  ///< of its program
    bool waiting = false;  ///< in a wait
    std::vector<CallRecord> calls;
    std::map<int, CallId> last_call;  ///< by key
    std::map<int, int> uses;          ///< by key
    std::vector<OpenBatch> open;
    Epoch epoch = 0;          ///< of the last gate entered: its flag
    BatchNumber entered = 0;  ///< in that epoch
    bool halted = false;      ///< sent Escape or Stopped, got no Resume
    bool in_barrier = false, in_join = false, in_depart = false;
    bool has_joined = false;
    bool lost = false, dead = false, departed = false;
    bool failed = false;  ///< by itself: lost for the others, and for itself
  };
  /// The facts that are known of a batch while some rank may still touch it.
  struct BatchRecord {
    LocalBatch batch;
    std::vector<std::string> parts;  ///< "3.0[0,64)", by part; empty while only joined ranks came
    std::vector<int> contributors;   ///< by part
    std::vector<bool> entered, closed, done;
    bool withdrawn = false;
  };

  using Batches = std::map<std::pair<Epoch, BatchNumber>, BatchRecord>;
  struct RankParts {
    CopyOnWrite<RankState> state;
    CopyOnWrite<std::vector<ToCoordinator>> up;
    CopyOnWrite<std::vector<ToRank>> down;
  };

  const RankParts& parts(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  RankParts& parts(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const RankState& at(int rank) const { return *parts(rank).state; }
  RankState& change(int rank) { return parts(rank).state.change(); }
  static std::string bytes_of_rank(const RankState& state);
  static std::string bytes_of_batches(const Batches& batches);
  bool program_may_step(int rank) const;
  void step_program(int rank);
  void submit_call(int rank, const Op& op);
  void submit_barrier(int rank);
  void submit_call(int rank, const Call& call, const CallRecord& record);
  bool gate_may_close(int rank) const;
  bool data_may_be_done(int rank) const;
  void close_gate(int rank, Epoch epoch, BatchNumber number);
  void data_done(int rank);
  void drain(int rank);
  void drain_coordinator();
  void act(int rank, Action& action);
  void entered(int rank, const LocalBatch& batch);
  void finished(int rank, const Finish& finish);
  BatchRecord& record(Epoch epoch, BatchNumber number);
  void withdrawn(int rank, const Withdraw& withdraw);
  void lose(int rank);
  void ended(const std::string& what, const std::optional<Error>& error);
  void pass_time();
  void compare(int rank, const LocalBatch& batch, BatchRecord& record);
  std::optional<Time> next_time() const;
  bool program_over(int rank) const;
  bool all_over() const;
  bool all_drained() const;
  bool coordinator_lives() const { return dead_ != 0; }

  std::shared_ptr<const std::vector<Program>> programs_;
  Surroundings surroundings_;
  std::vector<RankParts> ranks_;
  CopyOnWrite<Coordinator> coordinator_;
  CopyOnWrite<Batches> batches_;
  /// How each use of a key ended, the same on every rank: empty for a value.
  CopyOnWrite<std::map<std::pair<int, int>, std::string>> outcome_;
  Time now_{};
  int early_ = 0;        ///< deadlines that came
  int stuck_ticks_ = 0;  ///< in a row, without the clock moving
  int dead_ = -1;
  bool coordinator_knows_dead_ = false;
  Observed* observed_ = nullptr;
};

}  // namespace tutti::coordinator::test
