#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collective/engine.h"
#include "control/control_plane.h"
#include "coordinator/participant.h"
#include "mpi/communicator.h"
#include "observe/flight_recorder.h"
#include "observe/timeline.h"
#include "runtime/call_table.h"
#include "runtime/flush_timer.h"
#include "runtime/inbox.h"
#include "runtime/loss_log.h"
#include "runtime/waiter.h"

namespace tutti::runtime {

/// What the store has done so far, for any thread to read.
struct Tally {
  std::atomic<std::uint64_t> tensors_reduced{0}, bytes_reduced{0};
  std::atomic<std::uint64_t> tensors_broadcast{0}, bytes_broadcast{0};
  std::atomic<std::uint64_t> tensors_gathered{0}, bytes_gathered{0};
  std::atomic<std::uint64_t> batches{0}, bytes_between_nodes{0};
  std::atomic<std::size_t> engine_bytes{0};  ///< held by the engine

  /// A call that has been completed.
  void count(const coordinator::Signature& signature);
};

/// What moves a rank's calls forward: hands submissions and mail to the participant, carries out
/// its actions, moves gates and data.
///
/// One thread at a time, for which `ProgressLock` cares; `inbox` and `tally` are the doors to the
/// others. Nothing here blocks, nothing throws: what goes wrong reaches every waiter.
class Executor {
 public:
  /// Between nodes a batch up to this is moved by the thread that waits for it.
  static constexpr std::size_t worth_driving = std::size_t{256} << 10;

  Executor(int rank, int size, const coordinator::Settings& settings,
           control::ControlPlane& control, collective::Engine& engine,
           const mpi::Communicator* data, Inbox& inbox, LossLog& loss_log, Tally& tally,
           observe::Timeline& timeline);

  /// Looks at everything once. Whether something moved.
  bool pass();
  /// Whether a thread that has submitted should look itself. Else it is better left to the
  /// communication thread, which meets what else is submitted until it is awake and reports it in
  /// one go.
  bool may_accept() const;
  /// For such a thread, which has no time: as `pass`, but only data that takes no longer than to
  /// look at it.
  bool accept();
  /// There is more to do than to wait for the bell.
  bool is_busy() const;
  /// Nothing moved: what the thread may wait for, and until when. Reports a stall.
  struct Rest {
    Waiter::For reason = Waiter::For::doorbell;
    base::Clock::time_point until;
  };
  Rest prepare_rest();
  /// When it last looked.
  base::Clock::time_point looked_at() const { return looked_at_; }
  /// Completions whose callbacks are due; on the communication thread.
  bool has_callbacks() const { return !callbacks_.empty(); }
  std::vector<std::shared_ptr<base::Completion>> take_callbacks() {
    return std::exchange(callbacks_, {});
  }

  /// Any thread may have its turn: MPI is not called, or does not mind which thread calls it.
  bool may_use_any_thread() const { return may_use_any_thread(data_); }
  bool has_several_nodes() const { return data_ != nullptr; }
  static bool may_use_any_thread(const mpi::Communicator* data) {
    return data == nullptr || data->may_use_any_thread();
  }
  /// Large tensors are on their way between nodes: that takes so long that a hand-over of the
  /// progress lock costs more than it brings.
  bool has_long_transfer() const;
  /// This rank has departed, or a rank is lost: the end.
  bool is_finished() const { return finished_; }
  /// A rank is lost (or this one failed): MPI must not be finalised. Thread-safe.
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }

 private:
  /// A batch from its gate to its end; owns what the engine's view points to.
  struct RunningBatch {
    coordinator::LocalBatch plan;
    collective::Batch batch;
    std::vector<const void*> ins;  ///< one part's after the other's
    std::vector<void*> outs;
    bool gate_closed = false;
  };

  bool run_guarded(const std::function<bool()>& work);
  bool look_around();
  void fail(const std::exception& error);
  bool take_submissions();
  bool take_mail();
  bool take_loss();
  bool tick();
  bool note_waits();
  void submit(Submission& submission);
  void submit(const std::shared_ptr<CallList>& list);

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
  /// `at_once`: in the same breath as its gate's closing.
  bool start_next(bool at_once);
  bool move_data();
  std::unique_ptr<RunningBatch> prepare(coordinator::LocalBatch plan);
  void point_to_tensors(RunningBatch& running);
  void record_submission(const CallList& list, coordinator::CallId id, std::uint32_t row,
                         const TensorCall& call);
  void record_plan(const coordinator::ToRank& message);
  void record_entry(const RunningBatch& running);
  /// Completes the batch of a sharded tensor, whose only part this is.
  void shard_out(collective::Batch& batch, const coordinator::LocalPart& part) const;
  void note_sent();
  /// Lets MPI send what it may hold back, when it is time.
  void flush();

  void finish(const CallTable::Entry& call, const std::exception_ptr& error);
  void release_finished(const std::vector<coordinator::Action>& actions);
  void settle(const std::shared_ptr<CallList>& list, const std::exception_ptr& error);
  void settle(const std::shared_ptr<base::Completion>& completion, const std::exception_ptr& error);
  void settle(const Submission& submission, const std::exception_ptr& error);
  void fail_everything(const std::exception_ptr& error);
  std::string in_flight_text() const;
  /// What the user has called, and what that waits for.
  std::string in_call_text() const;
  std::string wait_text() const;
  /// A call of the user's that has not been answered.
  bool has_waiting_user() const;
  /// Nothing has moved for the stall time though somebody waits: says who waits for what.
  void report_stall();
  /// When it last looked, since the start.
  coordinator::Time now() const;

  const int rank_;
  const int size_;
  coordinator::Participant participant_;
  control::ControlPlane& control_;
  collective::Engine& engine_;
  const mpi::Communicator* data_;  ///< null on one node
  Inbox& inbox_;
  LossLog& loss_log_;
  Tally& tally_;
  observe::Timeline& timeline_;
  const base::Clock::time_point start_ = base::Clock::now();
  base::Clock::time_point looked_at_ = start_;

  std::vector<Submission> taken_;  ///< out of the inbox
  CallTable calls_;
  std::vector<const TensorCall*> released_;
  std::optional<BarrierCall> barrier_;
  std::optional<JoinCall> join_;
  std::optional<DepartCall> depart_;
  /// In plan order: first those that move data, and at most one gate that is open.
  std::vector<std::unique_ptr<RunningBatch>> running_;
  std::vector<std::unique_ptr<RunningBatch>>
      spare_;               ///< to be used again, with the memory they have
  std::size_t moving_ = 0;  ///< of `running_`, from its front
  observe::FlightRecorder recorder_;
  const coordinator::Time stall_time_;
  coordinator::Time stall_interval_;  ///< until the next report; doubles
  coordinator::Time last_move_{0};
  FlushTimer flush_timer_;   ///< of MPI between nodes; nothing on one
  bool gate_moved_ = false;  ///< in the last look, though it did not close
  std::vector<std::shared_ptr<base::Completion>> callbacks_;
  bool finished_ = false;
  bool loss_told_ = false;
  std::atomic<bool> lost_{false};
  std::vector<coordinator::Action> actions_;  ///< none; memory for the participant's
  std::exception_ptr own_failure_;            ///< why this rank is the lost one
  std::vector<std::byte> mail_;
};

}  // namespace tutti::runtime
