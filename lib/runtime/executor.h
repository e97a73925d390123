#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "collective/engine.h"
#include "control/control_plane.h"
#include "coordinator/participant.h"
#include "mpi/communicator.h"
#include "observe/flight_recorder.h"
#include "runtime/inbox.h"
#include "runtime/waiter.h"
#include "tutti/kvstore.h"

namespace tutti::runtime {

/// What the store has done so far, for any thread to read.
struct Tally {
  std::atomic<std::uint64_t> tensors_reduced{0}, bytes_reduced{0};
  std::atomic<std::uint64_t> tensors_broadcast{0}, bytes_broadcast{0};
  std::atomic<std::uint64_t> batches{0}, bytes_between_nodes{0};
};

/// The communication thread's loop: hands submissions and mail to the participant, carries out its
/// actions, moves gates and data, and sleeps when there is nothing to do.
///
/// Everything here runs on one thread; `inbox` and `tally` are the doors to the others.
class Executor {
 public:
  Executor(int rank, int size, const coordinator::Settings& settings,
           control::ControlPlane& control, collective::Engine& engine,
           const mpi::Communicator* data, Inbox& inbox, Tally& tally, bool crowded);

  /// Returns when this rank has departed or a rank is lost. Never throws: what goes wrong reaches
  /// every waiter.
  void run();
  /// A rank is lost (or this one failed): MPI must not be finalised.
  bool lost() const { return lost_.load(std::memory_order_acquire); }

 private:
  /// A batch from its gate to its end; owns what the engine's view points to.
  struct Running {
    coordinator::PlannedBatch plan;
    collective::Batch batch;
    std::vector<std::vector<const void*>> ins;
    std::vector<std::vector<void*>> outs;
    bool gate_closed = false;
  };

  void loop();
  bool take_submissions();
  bool take_mail();
  bool take_loss();
  bool tick();
  void submit(Submission& submission);
  void submit(TensorCall& call);

  bool apply_actions();
  void apply(coordinator::Send& action);
  void apply(coordinator::Enter& action);
  void apply(coordinator::Withdraw& action);
  void apply(coordinator::CloseGate& action);
  void apply(coordinator::Finish& action);
  void apply(coordinator::BarrierDone& action);
  void apply(coordinator::JoinDone& action);
  void apply(coordinator::DepartDone& action);
  void apply(coordinator::Lost& action);
  void apply(coordinator::Notice& action);

  bool advance();
  bool look_at_gate();
  bool start_next();
  bool move_data();
  std::unique_ptr<Running> prepare(coordinator::PlannedBatch plan);
  bool lingers();
  void wait(std::uint32_t ticket);

  void finish(TensorCall& call, const std::exception_ptr& error);
  void fail_everything(const std::exception_ptr& error);
  std::string in_flight_text() const;
  /// Nothing has moved for the stall time though calls are in flight: says who waits for what.
  void report_stall();
  coordinator::Time now() const;

  const int rank_;
  coordinator::Participant participant_;
  control::ControlPlane& control_;
  collective::Engine& engine_;
  const mpi::Communicator* data_;  ///< null on one node
  Inbox& inbox_;
  Tally& tally_;
  base::Doorbell& bell_;
  Waiter waiter_;
  const base::Clock::time_point start_ = base::Clock::now();

  coordinator::CallId next_call_ = 1;
  std::unordered_map<coordinator::CallId, TensorCall> calls_;
  std::optional<BarrierCall> barrier_;
  std::optional<JoinCall> join_;
  std::optional<DepartCall> depart_;
  /// In plan order; the front may be moving data, at most one gate beyond it is open.
  std::deque<std::unique_ptr<Running>> running_;
  bool moving_ = false;
  observe::FlightRecorder recorder_;
  const coordinator::Time stall_time_;
  coordinator::Time stall_interval_;  ///< until the next report; doubles
  coordinator::Time last_move_{0};
  base::Clock::time_point linger_until_{};
  bool finished_ = false;
  bool loss_told_ = false;
  std::atomic<bool> lost_{false};
  std::vector<std::byte> mail_;
};

}  // namespace tutti::runtime
